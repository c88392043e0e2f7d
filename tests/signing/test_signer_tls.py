"""`txmanager signer` in a network: both sides show a certificate, and the client's names it."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.servers.processes import free_port
from tests.signing.program import SignerProgram, signer_program
from tests.signing.test_stolen_worker import EVM, EVM_KEY, NEAR_KEY, evm
from txmanager.core.errors import InvalidSettings, SignerAway, SignerRefused
from txmanager.settings.signers import ProcessSettings, TlsSettings
from txmanager.signing.remote import Provider
from txmanager.signing.sources import Curve
from txmanager.wiring import process_maker


class Authority:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._own = self._make(name, self._key, authority=True)
        self.file = self._write(f"{name}.pem", self._own.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        made = self._make(name, key).public_bytes(serialization.Encoding.PEM)
        return self._write(f"{self._name}-{name}.pem", made), self._write(f"{self._name}-{name}-key.pem", secret)

    def _write(self, name: str, content: bytes) -> str:
        (self._folder / name).write_bytes(content)
        return str(self._folder / name)

    def _make(self, name: str, key: ec.EllipticCurvePrivateKey, authority: bool = False) -> x509.Certificate:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


class Network:
    def __init__(self, folder: Path) -> None:
        self.ours, self.strangers = Authority(folder, "ours"), Authority(folder, "strangers")
        self.port = free_port()

    def program(self, folder: Path):
        certificate, key = self.ours.issue("signer")
        return signer_program(
            folder,
            {"evm-1": EVM_KEY, "near-1": NEAR_KEY},
            listen=f"127.0.0.1:{self.port}",
            tls={"ca": self.ours.file, "certificate": certificate, "key": key},
            clients={
                "first": {"certificate": "worker-1", "keys": ["evm-1"]},
                "second": {"certificate": "worker-2", "keys": ["near-1"]},
            },
        )

    def client(self, name: str, authority: Authority | None = None, trusts: Authority | None = None) -> Provider:
        certificate, key = (authority or self.ours).issue(name)
        tls = TlsSettings(ca=(trusts or self.ours).file, certificate=certificate, key=key)
        address = f"127.0.0.1:{self.port}"
        return process_maker("box", ProcessSettings(provider="txmanager", address=address, tls=tls, timeout_s=5))()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory):
    made = Network(tmp_path_factory.mktemp("certificates"))
    with made.program(tmp_path_factory.mktemp("signer")) as program:
        assert isinstance(program, SignerProgram)
        yield made


async def test_a_client_is_who_its_certificate_says(network: Network) -> None:
    first, second = network.client("worker-1"), network.client("worker-2")
    assert (await first.describe("evm-1")).name == EVM.address
    [signed] = await first.sign_many("evm-1", Curve.SECP256K1, [evm()])
    assert isinstance(signed, bytes)
    with pytest.raises(SignerRefused, match="the client second has no key 'evm-1'"):
        await second.describe("evm-1")
    await first.close()
    await second.close()


@pytest.mark.parametrize("who", ["unknown name", "another authority", "a server of strangers"])
async def test_strangers_are_not_heard(network: Network, who: str) -> None:
    provider = {
        "unknown name": lambda: network.client("worker-3"),
        "another authority": lambda: network.client("worker-1", network.strangers),
        "a server of strangers": lambda: network.client("worker-1", trusts=network.strangers),
    }[who]()
    with pytest.raises(SignerAway):
        await provider.describe("evm-1")
    await provider.close()


async def test_a_certificate_that_is_not_there_is_one_sentence(network: Network) -> None:
    tls = TlsSettings(ca=network.ours.file, certificate="/nowhere.pem", key="/nowhere.pem")
    settings = ProcessSettings(provider="txmanager", address=f"127.0.0.1:{network.port}", tls=tls)
    with pytest.raises(InvalidSettings, match=r"signers\.box\.tls: ca, certificate or key cannot be used"):
        await process_maker("box", settings)().describe("evm-1")
