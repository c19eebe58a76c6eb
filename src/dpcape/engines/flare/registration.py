"""What a site sends to join a federation: its name, its identity and a request for a certificate. No private key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from dpcape.core.errors import DamagedFile, Failed, InvalidParameter
from dpcape.core.secure_sum.certificate_request import request_statement
from dpcape.core.secure_sum.identity import KEY_BYTES, verify

_VALID = timedelta(days=360)
_LEAST_BITS = 2048


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A site as it registers with a coordinator: the output of ``dpcape site identity --json``."""

    site: str
    public_key: str
    certificate_request: str
    request_signature: str

    @classmethod
    def load(cls, path: str | Path) -> Registration:
        """Read and check a registration."""
        try:
            registration = msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as error:
            must, remedy = "be given by the file that 'dpcape site identity --json' wrote", "Ask the site for it."
            raise InvalidParameter("A site", must, f"{str(path)!r} ({type(error).__name__})", remedy) from error
        registration.checked()
        return registration

    def checked(self) -> rsa.RSAPublicKey:
        """Return the key to certify; refuse a request that the site's identity did not sign."""
        pem = self.certificate_request.encode("ascii", "replace")
        try:
            request = x509.load_pem_x509_csr(pem)
            public, signature = bytes.fromhex(self.public_key), bytes.fromhex(self.request_signature)
        except ValueError as error:
            what = f"The registration of {self.site!r} could not be read"
            raise DamagedFile(what, remedy="Ask the site for it.") from error
        names = [str(entry.value) for entry in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if names != [self.site] or len(public) != KEY_BYTES:
            raise InvalidParameter("The registration", "be of one site", f"one for {names} under {self.site!r}")
        if not request.is_signature_valid or not verify(public, signature, request_statement(self.site, pem)):
            what = f"The registration of {self.site} was refused"
            raise Failed(what, "its identity did not sign the request", "Ask the site for the file again.")
        key = request.public_key()
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size < _LEAST_BITS:
            raise InvalidParameter(f"The TLS key of {self.site}", f"be RSA of at least {_LEAST_BITS} bits")
        return key


def certified(registration: Registration, template: bytes, root_key: bytes) -> bytes:
    """Return the certificate of a site's own key: names as in FLARE's ``template``, signed by the root key."""
    model = x509.load_pem_x509_certificate(template)
    signer = serialization.load_pem_private_key(root_key, password=None)
    if not isinstance(signer, rsa.RSAPrivateKey):
        raise InvalidParameter("The root key", "be FLARE's RSA key", remedy="Make the federation again.")
    key, now = registration.checked(), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(model.subject)
        .issuer_name(model.issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(model.extensions.get_extension_for_class(x509.SubjectAlternativeName).value, critical=False)
    )
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
