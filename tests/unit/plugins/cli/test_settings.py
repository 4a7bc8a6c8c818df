"""Which server is asked, as whom, and to whom a password is never sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.settings import Flags, Settings, load_settings, sandbox_file
from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.settings import SandboxSettings
from slipway_sandbox.lifecycle import cli_configuration

FILE = 'airflow_url = "https://one.example"\nuser = "ada"\npassword = "secret"\ntimeout_s = 5\n'


def write_config(home: Path, text: str = FILE, mode: int = 0o600) -> Path:
    path = home / ".config" / "slipway" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def write_sandbox(folder: Path, url: str = "http://127.0.0.1:1") -> Path:
    path = folder / ".sandbox" / "run" / "cli.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'airflow_url = "{url}"\nuser = "admin"\npassword = "sand"\n[store]\nbucket = "slipway"\nregion = "r"\n'
    )
    path.chmod(0o600)
    return path


def load(flags: Flags = Flags(), **environment: str) -> Settings:  # noqa: B008  frozen
    return load_settings(flags, {"HOME": str(Path.cwd()), **environment})


def test_the_file_says_who_asks_which_server(home: Path) -> None:
    """Address, user, password and time limit come from the configuration file."""
    write_config(home)
    access = load().access
    assert (access.base_url, access.user, access.password, access.timeout_s) == (
        "https://one.example",
        "ada",
        "secret",
        5,
    )


def test_the_environment_comes_before_the_file_and_a_flag_before_both(home: Path) -> None:
    """Flags, then the environment, then the file."""
    write_config(home)
    assert load(SLIPWAY_USER="bob").access.user == "bob"
    assert load(Flags(user="eve"), SLIPWAY_USER="bob").access.user == "eve"
    assert load(SLIPWAY_TIMEOUT_S="9").access.timeout_s == 9


def test_a_password_is_never_sent_to_another_server_than_its_own(home: Path) -> None:
    """An address from elsewhere comes without the file's login."""
    write_config(home)
    for flags, environment in (
        (Flags(url="https://evil.example"), {}),
        (Flags(), {"SLIPWAY_AIRFLOW_URL": "https://evil.example"}),
        (Flags(url="https://evil.example"), {"SLIPWAY_USER": "ada"}),
    ):
        with pytest.raises(CommandError, match="no user or token is configured") as caught:
            load(flags, **environment)
        assert caught.value.code is ExitCode.USAGE
        assert "secret" not in str(caught.value)


def test_the_same_address_again_keeps_the_login(home: Path) -> None:
    """Only another server is another server."""
    write_config(home)
    assert load(Flags(url="https://one.example/")).access.password == "secret"


def test_a_whole_login_of_the_environment_needs_no_file(home: Path) -> None:
    """Address, user and password from the environment are enough, as in CI."""
    (home / "password").write_text("from a file\n")
    settings = load(
        SLIPWAY_AIRFLOW_URL="https://ci.example",
        SLIPWAY_USER="ci",
        SLIPWAY_PASSWORD_FILE=str(home / "password"),
    )
    assert (settings.access.base_url, settings.access.password) == ("https://ci.example", "from a file")


def test_a_token_takes_the_place_of_a_password(home: Path) -> None:
    """Of two secrets the later source counts alone."""
    write_config(home)
    (home / "token").write_text("a.b.c\n")
    access = load(SLIPWAY_TOKEN_FILE=str(home / "token")).access
    assert (access.token, access.password) == ("a.b.c", "")


def test_profiles_are_chosen_by_name(home: Path) -> None:
    """`--profile` takes one of the file's profiles; another name is a fault that lists them."""
    write_config(
        home, FILE + '[profiles.far]\nairflow_url = "https://far.example"\nuser = "f"\npassword = "p"\n'
    )
    assert load(Flags(profile="far")).access.base_url == "https://far.example"
    with pytest.raises(CommandError, match="no profile 'near'") as caught:
        load(Flags(profile="near"))
    assert caught.value.found == "far"


def test_a_sandbox_of_this_folder_needs_no_configuration(home: Path) -> None:
    """What `make up` has written is found from the project's folder and from every folder below it."""
    write_sandbox(home)
    below = home / "docs" / "adr"
    below.mkdir(parents=True)
    assert sandbox_file({}, below) == home / ".sandbox" / "run" / "cli.toml"
    settings = load()
    assert (settings.is_sandbox, settings.access.password, settings.store["bucket"]) == (
        True,
        "sand",
        "slipway",
    )
    assert settings.access.if_silent == "make up"


def test_a_configuration_comes_before_a_sandbox_unless_it_is_asked_for(home: Path) -> None:
    """Who has configured a server means it wherever the command runs; `--profile sandbox` means the sandbox."""
    write_config(home)
    write_sandbox(home)
    assert not load().is_sandbox
    assert load(Flags(profile="sandbox")).is_sandbox


def test_a_sandboxs_login_is_not_sent_elsewhere(home: Path) -> None:
    """An address of the environment comes without the sandbox's password and bucket."""
    write_sandbox(home)
    with pytest.raises(CommandError, match="no user or token is configured"):
        load(SLIPWAY_AIRFLOW_URL="https://evil.example")


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666])
def test_a_password_that_others_can_read_or_redirect_is_not_used(home: Path, mode: int) -> None:
    """The file must be its owner's alone; the error says what to type."""
    path = write_config(home, mode=mode)
    with pytest.raises(CommandError) as caught:
        load()
    assert caught.value.remedy == f"chmod 600 {path}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("airflow_uri = 'x'", "no key 'airflow_uri'"),
        ("user = 3", "user is invalid"),
        ("user = [", "it is not valid TOML"),
        (
            "timeout_s = 0\n" + 'airflow_url = "https://a"\nuser = "u"\npassword = "p"',
            "timeout_s is invalid",
        ),
        (
            'airflow_url = "https://a"\nuser = "u"\npassword_file = "/nowhere"',
            "password_file names cannot be read",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_fault(home: Path, text: str, told: str) -> None:
    """Each fault is a usage error that names the file or the key."""
    write_config(home, text)
    with pytest.raises(CommandError, match=told) as caught:
        load()
    assert caught.value.code is ExitCode.USAGE


def test_without_any_address_the_ways_to_give_one_are_named(home: Path) -> None:
    """The error names flag, variable, file and sandbox."""
    with pytest.raises(CommandError, match="no Airflow address is configured") as caught:
        load()
    assert "SLIPWAY_AIRFLOW_URL" in (caught.value.expected or "")
    assert "make up" in (caught.value.remedy or "")


def test_no_secret_is_ever_in_a_printed_form(home: Path) -> None:
    """The settings' own text shows neither password nor keys."""
    write_sandbox(home)
    assert "sand" not in repr(load()).replace("sandbox", "").replace("is_sandbox", "")


def test_what_make_up_writes_is_what_the_command_reads(home: Path) -> None:
    """Address, login and bucket of a sandbox, by the sandbox's own writer."""
    sandbox = SandboxSettings.prepare(home / ".sandbox", {})
    replace_file(sandbox.cli_file, cli_configuration(sandbox), private=True)
    settings = load()
    assert settings.access.base_url == sandbox.airflow_url
    assert (settings.access.user, settings.access.password) == ("admin", sandbox.airflow_password)
    assert dict(settings.store) == {
        "bucket": "slipway",
        "endpoint_url": sandbox.object_store_url,
        "region": "us-east-1",
        "access_key_id": sandbox.access_key,
        "secret_access_key": sandbox.secrets.object_store_secret,
    }
    assert load(Flags(user="colleague")).access.user == "colleague"
