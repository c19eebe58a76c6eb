"""The steward confirms once which server a kit names: its port is the one that the engine may connect to anywhere."""

from __future__ import annotations

import sys

import click

from dpcape.core.errors import Failed, InvalidParameter

_HTTPS = 443
# Ports above 1023 of services that clinics and universities run; every port below 1024 counts as a service.
_SERVICES = {
    1433: "Microsoft SQL Server",
    1521: "Oracle",
    2049: "NFS",
    2375: "Docker",
    2376: "Docker",
    2379: "etcd",
    2575: "HL7",
    3128: "a proxy",
    3306: "MySQL",
    3389: "remote desktops",
    4242: "DICOM",
    5432: "PostgreSQL",
    5672: "RabbitMQ",
    5900: "VNC",
    5984: "CouchDB",
    5985: "Windows Remote Management",
    5986: "Windows Remote Management",
    6379: "Redis",
    6443: "Kubernetes",
    7687: "Neo4j",
    8042: "Orthanc",
    8080: "web pages",
    8443: "web pages",
    9042: "Cassandra",
    9092: "Kafka",
    9200: "Elasticsearch",
    10250: "Kubernetes",
    11112: "DICOM",
    11211: "memcached",
    27017: "MongoDB",
}


def service_at(port: int) -> str | None:
    """Return whose port it is, if that is neither HTTPS nor a server of a federation."""
    if port == _HTTPS:
        return None
    return _SERVICES.get(port, "a service of the system" if port < 1024 else None)


def is_named(address: str, named: str | None) -> bool:
    """Return whether the steward named the server of the kit, HOST:PORT; refuse another name."""
    if named is None:
        return False
    if named.strip().lower() != address.lower():
        remedy = "Ask the coordinator which is right, and take a new kit if the kit is wrong."
        raise InvalidParameter("--server", f"be the server that the kit names, {address}", repr(named[:300]), remedy)
    return True


def confirm(address: str, before: str) -> None:
    """Ask the steward at the terminal whether this is the server; refuse if it is not, or nobody can be asked.

    Parameters
    ----------
    address : str
        The server that the kit names, HOST:PORT.
    before : str
        The server that was confirmed before; empty if there is none.
    """
    host, _, port = address.rpartition(":")
    service = service_at(int(port))
    if service is not None:
        got = f"{port}, the port of {service}, which the engine could then reach on every machine"
        remedy = f"Ask the coordinator for another port, or accept this one with: --server {address}."
        raise InvalidParameter("The server's port", "not be that of another service", got, remedy)
    changed = f" Until now it was {before}." if before else ""
    if not sys.stdin.isatty():
        got = f"a kit that names {host}, port {port}.{changed} Compare it with what the coordinator told you, then add"
        raise InvalidParameter("The steward", "confirm the server once", f"{got}: --server {address}")
    click.echo(
        f"The kit names the server {host}, port {port}.{changed} The engine of this site will be able to connect to "
        f"port {port} of every machine that it can reach, and to no other port but that of name look-ups and one on "
        "which its own processes meet.",
        err=True,
    )
    if not click.confirm("Is this the server that the coordinator told you?", err=True):
        raise Failed("Nothing is served", "the server was not confirmed", "Ask for a new kit.")
