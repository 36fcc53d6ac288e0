"""Profiles as files: who goes before whom, what `extends` means, and that a cloned repository redefines nothing."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from supervisor.adapters.profile_files import PROJECT_FOLDER, Found, ProfileFiles, shipped
from supervisor.core.errors import BadInput, NotFound, Refused

SHIPPED = {"acp", "claude", "codex", "demo", "gemini", "opencode", "pi", "shell"}


class Nest:
    """A project in a git root, a user's folder and a trust file."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.deep = self.project / "src" / "deep"
        self.user = folder / "config"
        self.trust = folder / "home" / "trusted.toml"
        for made in (self.project / ".git", self.deep, self.user, self.trust.parent):
            made.mkdir(parents=True)
        (self.project / ".git" / "HEAD").touch()

    def files(self, cwd: Path | None = None) -> ProfileFiles:
        return ProfileFiles(cwd=str(cwd or self.project), user=str(self.user), trust=str(self.trust))

    def write_user(self, name: str, text: str) -> Path:
        return self._write(self.user / "launch_profiles", name, text)

    def write_project(self, name: str, text: str, *, at: Path | None = None) -> Path:
        return self._write((at or self.project) / PROJECT_FOLDER, name, text)

    def _write(self, folder: Path, name: str, text: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.toml"
        path.write_text(text)
        return path


@pytest.fixture
def nest(tmp_path: Path) -> Nest:
    return Nest(tmp_path)


def plain(summary: str = "mine", command: str = "prog") -> str:
    return f'summary = "{summary}"\n[argv]\nbase = ["{command}"]\n'


def test_the_shipped_profiles_are_found_and_valid(nest: Nest) -> None:
    files = nest.files()
    assert {f.name for f in files.all()} >= SHIPPED
    assert {f.origin for f in files.all()} == {"shipped"}
    for found in files.all():
        assert files.load(found.name).name == found.name


def test_a_users_profile_goes_before_the_shipped_one_and_says_what_it_hides(nest: Nest) -> None:
    path = nest.write_user("claude", plain())
    found = nest.files().find("claude")
    assert (found.origin, found.path, found.trusted) == ("user", str(path), True)
    assert found.overrides == (f"{shipped()}/claude.toml",)
    assert nest.files().load("claude").argv.base == ("prog",)


def test_the_whole_file_wins(nest: Nest) -> None:
    nest.write_user("claude", plain())
    assert nest.files().load("claude").argv.headless == ()


def test_a_project_profile_cannot_shadow_a_shipped_one_untrusted(nest: Nest) -> None:
    """Refused, rather than the shipped one used in its place: the user must know that there is another one."""
    path = nest.write_project("claude", plain(command="evil"))
    with pytest.raises(Refused, match="is not trusted") as refused:
        nest.files().load("claude")
    assert str(path) in str(refused.value)
    assert "supervisor profiles trust claude" in str(refused.value)


def test_an_untrusted_profile_is_not_among_the_known_ones(nest: Nest) -> None:
    nest.write_project("claude", plain(command="evil"))
    nest.write_project("evil", plain(command="evil"))
    names = {p.name for p in nest.files().known()}
    assert "evil" not in names
    assert "claude" not in names
    assert "codex" in names


def test_a_trusted_project_profile_goes_before_all_others(nest: Nest) -> None:
    hidden = nest.write_user("claude", plain("the user's"))
    nest.write_project("claude", plain("the project's"))
    trusted = nest.files().trust("claude")
    assert trusted.trusted is True
    assert trusted.overrides == (str(hidden), f"{shipped()}/claude.toml")
    assert nest.files().load("claude").summary == "the project's"


def test_a_changed_file_is_untrusted_again(nest: Nest) -> None:
    path = nest.write_project("mine", plain())
    nest.files().trust("mine")
    path.write_text(plain(command="evil"))
    assert nest.files().find("mine").trusted is False
    with pytest.raises(Refused):
        nest.files().load("mine")


def test_trust_is_for_one_place_not_for_a_content_anywhere(nest: Nest, tmp_path: Path) -> None:
    nest.write_project("mine", plain())
    nest.files().trust("mine")
    other = tmp_path / "elsewhere"
    (other / ".git").mkdir(parents=True)
    (other / ".git" / "HEAD").touch()
    nest.write_project("mine", plain(), at=other)
    assert nest.files(other).find("mine").trusted is False


def test_trusting_one_profile_keeps_the_trust_of_others(nest: Nest) -> None:
    for name in ("one", "two"):
        nest.write_project(name, plain())
        nest.files().trust(name)
    assert [nest.files().find(n).trusted for n in ("one", "two")] == [True, True]


def test_the_trust_file_is_its_owners_alone(nest: Nest) -> None:
    nest.write_project("mine", plain())
    nest.files().trust("mine")
    assert stat.S_IMODE(nest.trust.stat().st_mode) == 0o600


@pytest.mark.parametrize("broken", ["", "not toml [", 'sha256 = "x"\n', "[sha256]\nx = 1\n"])
def test_a_broken_trust_file_trusts_nothing(nest: Nest, broken: str) -> None:
    nest.write_project("mine", plain())
    nest.trust.write_text(broken)
    assert nest.files().find("mine").trusted is False


def test_a_malformed_profile_cannot_be_trusted(nest: Nest) -> None:
    nest.write_project("mine", "summary = 1\n")
    with pytest.raises(BadInput):
        nest.files().trust("mine")
    assert not nest.trust.exists()


@pytest.mark.parametrize("name", ["claude", "users"])
def test_what_needs_no_trust_is_not_trusted(nest: Nest, name: str) -> None:
    nest.write_user("users", plain())
    with pytest.raises(Refused, match="needs no trust"):
        nest.files().trust(name)


def test_the_project_is_searched_up_to_the_git_root(nest: Nest) -> None:
    nest.write_project("mine", plain())
    assert nest.files(nest.deep).find("mine").origin == "project"


def test_nothing_above_the_git_root_is_searched(nest: Nest) -> None:
    nest.write_project("mine", plain(), at=nest.project.parent)
    with pytest.raises(NotFound):
        nest.files(nest.deep).find("mine")


def test_outside_of_a_repository_only_the_working_directory_is_searched(nest: Nest) -> None:
    (nest.project / ".git" / "HEAD").unlink()  # an empty .git, as sandboxes leave them, is no repository
    nest.write_project("mine", plain())
    assert nest.files(nest.project).find("mine").origin == "project"
    with pytest.raises(NotFound):
        nest.files(nest.deep).find("mine")


def test_a_worktree_is_a_repository_too(nest: Nest) -> None:
    (nest.deep / ".git").write_text("gitdir: elsewhere\n")
    nest.write_project("mine", plain())
    with pytest.raises(NotFound):
        nest.files(nest.deep).find("mine")


def test_an_unknown_name_is_answered_with_those_there_are(nest: Nest) -> None:
    with pytest.raises(NotFound, match="there is no profile 'nope'. There are: acp, claude, "):
        nest.files().find("nope")


@pytest.mark.parametrize("name", ["", ".", "..", "../config/launch_profiles/mine", "/etc/passwd"])
def test_a_name_never_leads_out_of_the_folders(nest: Nest, name: str) -> None:
    nest.write_user("mine", plain())
    with pytest.raises(NotFound):
        nest.files().find(name)


def test_extends_changes_single_keys_of_tables_and_replaces_lists(nest: Nest) -> None:
    base = nest.files().load("claude")
    nest.write_user("claude", 'extends = "claude"\n[stop]\ngrace_seconds = 99\n[argv]\nheadless = ["-p"]\n')
    mine = nest.files().load("claude")
    assert mine.stop.grace_seconds == 99
    assert mine.stop.signal == base.stop.signal
    assert mine.argv.headless == ("-p",)
    assert mine.argv.base == base.argv.base
    assert mine.summary == base.summary


def test_extends_may_name_another_profile_whose_name_is_not_taken_over(nest: Nest) -> None:
    nest.write_user("reviewer", 'extends = "claude"\nsummary = "a reviewer"\n')
    assert nest.files().load("reviewer").name == "reviewer"


def test_a_projects_profile_extends_the_users_before_the_shipped_one(nest: Nest) -> None:
    nest.write_user("claude", plain("the user's"))
    nest.write_project("claude", 'extends = "claude"\n[stop]\ngrace_seconds = 99\n')
    nest.files().trust("claude")
    mine = nest.files().load("claude")
    assert (mine.summary, mine.stop.grace_seconds) == ("the user's", 99)


def test_a_users_profile_never_extends_a_projects(nest: Nest) -> None:
    nest.write_project("evil", plain(command="evil"))
    nest.write_user("mine", 'extends = "evil"\n')
    with pytest.raises(BadInput, match="there is no profile 'evil' to extend"):
        nest.files().load("mine")


def test_extends_goes_one_level(nest: Nest) -> None:
    nest.write_user("one", 'extends = "claude"\n')
    nest.write_project("two", 'extends = "one"\n')
    with pytest.raises(BadInput, match="one level"):
        nest.files().read(nest.files().find("two"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("summary = [\nx\n", "line 2"),
        (plain() + "strat = []\n", "unknown field `strat` - at `argv`"),
        ('summary = "x"\ncolour = "red"\n', "unknown field `colour`"),
        ('summary = "x"\nschema = 2\n', "schema"),
        ('summary = "x"\nname = "other"\n', "name is 'other', the file's is 'mine'"),
        ("[argv]\nbase = ['x']\n", "summary"),
        ('summary = "x"\nextends = 3\n', "extends: is no profile name"),
        ('extends = "nope"\n', "there is no profile 'nope' to extend"),
        ('summary = "x"\n[argv]\nbase = ["--id={session_id}"]\n', "must be a whole token"),
        ('summary = "x"\n[argv]\nbase = ["{secret}"]\n', "unknown field"),
        ('summary = "x"\n[argv]\nbase = [""]\n', "argv.base"),
        ('summary = "x"\n[prompt]\nheadless = "argv"\nargs = ["{prompt}"]\n', "needs `--` or an option before it"),
        ('summary = "x"\n[prompt]\nheadless = "argv"\n', "needs {prompt}"),
        ('summary = "x"\n[stop]\nsignal = "SEGV"\n', "stop.signal"),
        ('summary = "x"\n[stop]\ngrace_seconds = -1\n', "stop.grace_seconds"),
        ('summary = "x"\n[session]\nid = "preset"\n', "needs a group with {session_id}"),
        ('summary = "x"\n[session]\nid = "capture"\n', "session.capture_key"),
        ('summary = "x"\n[ready]\nwhen = "session_file"\n', "session.files"),
        ('summary = "x"\n[env.set]\n"A B" = "1"\n', "env.set"),
        ('summary = "x"\n[link.env]\nPI_PARENT = "{parent}"\n', "unknown field"),
    ],
)
def test_a_mistake_is_answered_with_file_and_key(nest: Nest, text: str, said: str) -> None:
    path = nest.write_user("mine", text)
    with pytest.raises(BadInput) as refused:
        nest.files().load("mine")
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


def test_a_file_that_is_not_utf8_is_answered_with_the_byte(nest: Nest) -> None:
    nest.write_user("mine", "").write_bytes(b'summary = "\xff"\n')
    with pytest.raises(BadInput, match="is not UTF-8"):
        nest.files().load("mine")


def test_one_broken_profile_harms_no_other(nest: Nest) -> None:
    nest.write_user("mine", "summary = [\n")
    assert "mine" in {f.name for f in nest.files().all()}
    assert {p.name for p in nest.files().known()} >= SHIPPED


def test_reading_does_not_ask_for_trust(nest: Nest) -> None:
    """`profiles show` and `check` must be able to look at what they advise to read."""
    path = nest.write_project("mine", plain())
    found = Found(name="mine", origin="project", path=str(path), trusted=False)
    assert nest.files().read(found).argv.base == ("prog",)
