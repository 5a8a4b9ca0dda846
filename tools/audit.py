"""Look up what is installed in the lists of known vulnerabilities, with pip-audit.

    python tools/audit.py SITE_PACKAGES [--unreachable-ok]

Ends with exit code 1 where something is known to be vulnerable, and with 3 where that could not be
found out: neither list can be reached, or what answers does not know the oldest of
vulnerabilities. With --unreachable-ok the latter prints its line and ends with 0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SERVICES = ("pypi", "osv")
#: known to be vulnerable for many years; a service that does not say so says nothing
KNOWN = "jinja2==2.4.1"

FOUND, UNREACHABLE = 1, 3


def ask(service: str, *what: str) -> list[dict[str, Any]] | None:
    """Return what a service knows of packages, or None where it did not answer."""
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service", service, *what]
    options = ["--format", "json", "--progress-spinner", "off", "--timeout", "15"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    try:
        listed: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return listed


def knows_anything(service: str) -> bool:
    """Whether a service names the vulnerability of a package that everybody knows of."""
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder, "known.txt")
        known.write_text(f"{KNOWN}\n", encoding="utf-8")
        answer = ask(service, "--requirement", str(known), "--no-deps", "--disable-pip")
    return bool(answer and any(package.get("vulns") for package in answer))


def report(packages: list[dict[str, Any]]) -> int:
    """Print what is vulnerable and what is not known; return the exit code."""
    bad = [package for package in packages if package.get("vulns")]
    for package in bad:
        for found in package["vulns"]:
            repaired = ", ".join(found.get("fix_versions") or []) or "no version"
            print(f"{package['name']} {package['version']}: {found['id']}, repaired in {repaired}")
    skipped = sorted(package["name"] for package in packages if "skip_reason" in package)
    if skipped:
        print(f"not in the list: {', '.join(skipped)}")
    print(f"{len(packages) - len(skipped)} packages looked up, {len(bad)} known to be vulnerable")
    return FOUND if bad else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the audit; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", help="site-packages of the environment")
    parser.add_argument("--unreachable-ok", action="store_true", help="go on where none answers")
    options = parser.parse_args(arguments)
    for service in SERVICES:
        if knows_anything(service):
            packages = ask(service, "--path", options.folder, "--skip-editable")
            if packages is not None:
                return report(packages)
    print(
        "not audited: no list of vulnerabilities could be reached (PyPI's and osv.dev's were "
        "tried); try again where there is a network"
    )
    return 0 if options.unreachable_ok else UNREACHABLE


if __name__ == "__main__":
    sys.exit(main())
