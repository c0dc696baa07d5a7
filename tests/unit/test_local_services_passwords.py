"""Local services have passwords: random, made once, for this user alone, and on no command line."""

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path

import pytest

from neo4j_queue.local_services import LocalServices, ServiceError, ServicesConfig
from neo4j_queue.local_services.passwords import FILE, first_user, make, read, write_private

THREADS = 8


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def made_before_passwords(directory: Path) -> Path:
    """A directory in which an earlier version has started its servers."""
    (directory / "graph" / "data").mkdir(parents=True)
    (directory / "jobs" / "data").mkdir(parents=True)
    return directory


def test_passwords_are_made_once_and_differ(tmp_path: Path) -> None:
    first = LocalServices(ServicesConfig(directory=tmp_path)).passwords()
    assert first is not None
    assert len(set(astuple(first))) == len(astuple(first))
    assert mode(tmp_path / FILE) == 0o600
    assert LocalServices(ServicesConfig(directory=tmp_path)).passwords() == first
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert not [each for each in astuple(first) if each in repr(first)]


def test_a_server_of_a_new_directory_makes_them_before_its_own_folders(tmp_path: Path) -> None:
    """Seen failing: its first folder looked like the data of an earlier version, and it started without."""
    services = LocalServices(ServicesConfig(directory=tmp_path))
    services.graph.directory.mkdir()
    services.graph.prepare()
    lines = (services.graph.directory / "conf" / "neo4j.conf").read_text()
    assert "dbms.security.auth_enabled=true" in lines
    assert mode(services.graph.directory / "data" / "dbms" / "auth.ini") == 0o600


def test_two_that_make_them_at_once_have_the_same(tmp_path: Path) -> None:
    """Seen failing with a plain write in place of the link: each kept its own, and one server its first."""
    with ThreadPoolExecutor(THREADS) as pool:
        made = list(pool.map(lambda _: make(tmp_path / "services"), range(THREADS)))
    assert set(made) == {read(tmp_path / "services")}


def test_no_password_stands_in_a_command_line_or_in_what_people_are_shown(tmp_path: Path) -> None:
    """Every user of the machine can read the arguments of a process."""
    services = LocalServices(ServicesConfig(directory=tmp_path))
    passwords = astuple(services.passwords())  # type: ignore[arg-type]
    for service in services.all:
        service.directory.mkdir()
        said = [*service.prepare(), service.shown, str(service.status())]
        assert not [line for line in said for password in passwords if password in line]
    assert passwords[2] in services.redis.url
    assert mode(services.redis.directory / "redis.conf") == 0o600
    assert not [each for each in passwords if each in str(services.places())]


def test_services_of_an_earlier_version_go_on_without_until_they_are_given_some(tmp_path: Path) -> None:
    """Programs are set up without; `down` and `status` make no passwords either."""
    services = LocalServices(ServicesConfig(directory=made_before_passwords(tmp_path)))
    services.status()
    services.down()
    assert services.passwords() is None
    assert services.environment() == services.places()
    assert services.graph.settings()["dbms.security.auth_enabled"] == "false"
    assert services.jobs.address.username is None
    assert services.redis.url == services.redis.shown
    assert not (tmp_path / FILE).exists()

    services._add_passwords()
    assert services.graph.settings()["dbms.security.auth_enabled"] == "true"
    assert services.environment()["NEO4J_PASSWORD"] == services.graph.address.password


def test_what_can_be_made_again_gets_passwords_by_itself(tmp_path: Path) -> None:
    config = ServicesConfig(directory=made_before_passwords(tmp_path), throwaway=True)
    assert LocalServices(config).passwords() is not None


def test_a_damaged_file_is_named_and_nothing_is_made_in_its_stead(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"graph": "a"}')
    with pytest.raises(ServiceError, match=FILE):
        LocalServices(ServicesConfig(directory=tmp_path)).passwords()
    assert (tmp_path / FILE).read_text() == '{"graph": "a"}'


def test_the_first_user_is_written_as_the_server_reads_it() -> None:
    """That the server lets this user in is tested by every test that asks a database something."""
    name, hashed, flags = first_user("secret").rstrip("\n").split(":")
    algorithm, digest, salt, rounds = hashed.split(",")
    assert (name, algorithm, rounds, flags) == ("neo4j", "SHA-256", "1024", "")
    expected = sha256(bytes.fromhex(salt) + b"secret").digest()
    for _ in range(1023):
        expected = sha256(expected).digest()
    assert digest == expected.hex().upper()
    assert first_user("secret") != first_user("secret")


def test_a_private_file_is_private_whatever_stood_there(tmp_path: Path) -> None:
    """Seen failing with `Path.write_text`, which keeps the mode of the file that it fills."""
    file = tmp_path / "file"
    file.write_text("before")
    file.chmod(0o644)
    write_private(file, "after")
    assert (file.read_text(), mode(file)) == ("after", 0o600)
