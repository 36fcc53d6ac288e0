"""Throw-away homes of codex, gemini and opencode for the end-to-end tests, each with the fake model as its only one.

What each CLI needs to start without network, account or dialog was read off the versions in `clis.WANTED`.
"""

import json
from pathlib import Path

KEY = "sk-dummy-for-the-fake-model-0123456789"


def codex_home(tmp: Path, port: int) -> dict[str, str]:
    """A new `CODEX_HOME` below `tmp`; codex's own variables.

    Its sandbox makes `.git`, `.agents` and `.codex` in every folder it may write: not in the machine's /tmp.
    """
    home = tmp / "codex"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f"""\
model = "fake-1"
model_provider = "fake"
check_for_update_on_startup = false

[sandbox_workspace_write]
exclude_slash_tmp = true

[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "FAKE_MODEL_KEY"
wire_api = "responses"

[analytics]
enabled = false

[feedback]
enabled = false
"""
    )
    return {"CODEX_HOME": str(home), "FAKE_MODEL_KEY": KEY}


def gemini_home(home: Path, port: int) -> dict[str, str]:
    """Settings of gemini below the agent's `home`; gemini's own variables."""
    folder = home / ".gemini"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"}


def opencode_home(home: Path, port: int) -> dict[str, str]:
    """Configuration of opencode below the agent's `home`; opencode's own variables."""
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": KEY},
        "models": {"fake-1": {"name": "fake-1"}},
    }
    settings = {
        "provider": {"fake": provider},
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "autoupdate": False,
        "share": "disabled",
    }
    (folder / "opencode.json").write_text(json.dumps(settings))
    names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {
        "OPENCODE_CONFIG": str(folder / "opencode.json"),
        **{f"OPENCODE_DISABLE_{name}": "1" for name in names},
        "npm_config_fetch_retries": "0",  # with a plugin it waits for npm first: for a minute where no network is
    }
