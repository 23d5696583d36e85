"""Certificates of our own making, and a wire that ends TLS in front of a server which speaks none."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.listening import listening

NOW = dt.datetime.now(dt.UTC)


class Authority:
    """Signs certificates; `file` is its own, by which others know them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        may_sign = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        own = self._begun(self._name, self._key.public_key(), days=30)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(may_sign, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, host: str, *, days: int = 30) -> Path:
        """A file of a key and its certificate for that name; with less than 0 days one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        made = self._begun(name, key.public_key(), days=days)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(known, critical=False)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file = self._folder / f"{self.file.stem}-{host}-{days}.pem"
        file.write_bytes(secret + made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return file

    def _begun(self, name: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int) -> x509.CertificateBuilder:
        ends = NOW + dt.timedelta(days=days)
        made = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(ends - dt.timedelta(days=60)).not_valid_after(ends)
        return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


@contextmanager
def ending_tls(certificate: Path, port: int) -> Iterator[int]:
    """Give a port of loopback that shows the certificate; what is said there goes on to `port` in clear text."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def speak(near: socket.socket) -> None:
        with suppress(OSError), near, context.wrap_socket(near, server_side=True) as shown:
            with socket.create_connection(("127.0.0.1", port)) as far:
                back = threading.Thread(target=_passed, args=(far, shown), daemon=True)
                back.start()
                _passed(shown, far)
                back.join()

    with listening(speak) as at:
        yield at


def _passed(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while told := one.recv(65_536):
            other.sendall(told)
        other.shutdown(socket.SHUT_WR)
