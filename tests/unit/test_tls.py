"""TLS options are read when the coordinator is made: what is wrong names the option and the file."""

from pathlib import Path

import pytest

from tests.support.tls import CERTIFICATE, ENCRYPTED_KEY, KEY
from zkcoord import ConfigError, Coordinator, configure


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Right and wrong files in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("cert.pem").write_text(CERTIFICATE)
    Path("key.pem").write_text(KEY)
    Path("locked.pem").write_text(ENCRYPTED_KEY)
    Path("both.pem").write_text(KEY + CERTIFICATE)
    Path("text.pem").write_text("no certificate")
    Path("empty.pem").write_text("")
    Path("directory").mkdir()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ca": "cert.pem"},
        {"certfile": "cert.pem", "keyfile": "key.pem"},
        {"certfile": "both.pem", "keyfile": "both.pem"},
        {"certfile": "cert.pem", "keyfile": "locked.pem", "keyfile_password": "secret"},
        {"verify_certs": False, "check_hostname": False},
    ],
)
def test_right_files_are_taken(files, options):
    Coordinator("zk1", tls=True, **options).close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ca": "none.pem"}, r"ca='none.pem' cannot be read: .*No such file"),
        ({"ca": "directory"}, "ca='directory' cannot be read"),
        ({"ca": 7.5}, "ca=7.5 cannot be read"),
        ({"ca": "text.pem"}, "ca='text.pem' is no PEM file of certificates"),
        ({"ca": "empty.pem"}, "ca='empty.pem' is no PEM file of certificates"),
        ({"certfile": "none.pem", "keyfile": "key.pem"}, "certfile='none.pem' cannot be read"),
        ({"certfile": "cert.pem", "keyfile": "none.pem"}, "keyfile='none.pem' cannot be read"),
        ({"certfile": "cert.pem", "keyfile": "text.pem"}, "and keyfile='text.pem' are no PEM files"),
        ({"certfile": "cert.pem", "keyfile": "locked.pem"}, "needs another keyfile_password"),
        (
            {"certfile": "cert.pem", "keyfile": "locked.pem", "keyfile_password": "wrong"},
            "needs another keyfile_password",
        ),
        ({"certfile": "cert.pem"}, "keyfile is missing: give both"),
        ({"keyfile": "key.pem"}, "certfile is missing: give both"),
        ({"verify_certs": False}, "verify_certs=False needs check_hostname=False"),
        ({"tls": False, "ca": "cert.pem"}, "ca is given, but the connection would be plain: give tls=True"),
    ],
)
def test_wrong_option_is_named_at_once(files, options, words):
    for make in (Coordinator, configure):
        with pytest.raises(ConfigError, match=words) as caught:
            make(hosts="zk1", **{"tls": True, **options})
        assert "wrong" not in str(caught.value)
