"""A site's key for TLS and the request by which the coordinator certifies it. The key is made here and stays here."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.files import write_private
from dpcape.core.secure_sum.certificate_request import request_statement
from dpcape.core.secure_sum.identity import Identity

TLS_KEY = "tls.key"
# FLARE signs tokens with the same key, by RSA.
_BITS = 3072


def tls_key(keys: Path) -> rsa.RSAPrivateKey:
    """Return the site's TLS key; made when it is first needed."""
    path = keys / TLS_KEY
    if not path.exists():
        key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
        encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        write_private(path, key.private_bytes(*encoding))
    loaded = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(loaded, rsa.RSAPrivateKey):
        raise InvalidParameter(TLS_KEY, "be an RSA key", "a key of a different kind", "Remove it; a new one is made.")
    return loaded


def certificate_request(name: str, keys: Path, identity: Identity) -> dict[str, str]:
    """Return the request for a certificate, signed with the TLS key and with the site's identity."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(tls_key(keys), hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    signature = identity.sign(request_statement(name, pem)).hex()
    return {"certificate_request": pem.decode("ascii"), "request_signature": signature}


def require_own_certificate(pem: bytes, kit: Path, site: str, key: rsa.RSAPrivateKey) -> None:
    """Refuse a kit of another site, one that brings a private key, and one whose certificate is for another key.

    ``pem`` is the certificate as it was read from the kit.
    """
    certificate = x509.load_pem_x509_certificate(pem)
    names = [str(entry.value) for entry in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [site]:
        must = f"be made for {site}, whose folder is served"
        raise InvalidParameter("The kit", must, f"the kit of {', '.join(names) or 'nobody'}", f"Use the kit of {site}.")
    remedy = (
        "Send the output of 'dpcape site identity --json' to the coordinator, who makes a new kit with "
        "'dpcape federation replace-site'."
    )
    if any((kit / "startup").glob("*.key")):
        why = "it holds a private key that the coordinator has seen"
        raise Failed("The kit was refused", why, remedy)
    if certificate.public_key() != key.public_key():
        raise Failed("The kit was refused", "its certificate is not for this site's key", remedy)
