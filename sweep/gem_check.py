"""The verb `check-gem`: the conformance suite on one gem, as lines for the terminal."""

from __future__ import annotations


def check(reference: str) -> tuple[list[str], list[str]]:
    """Lines to print, and the names of the checks that failed. GemError for a reference that names no usable gem."""
    from trainer.gems.conformance import CHECKS, check_gem
    from trainer.gems.registry import load_gem

    gem = load_gem(reference)
    findings = check_gem(gem)
    lines = [f"gem {gem.name}: gradient enters at {', '.join(gem.inputs)}; coefficient {gem.coefficient:g}"]
    for finding in findings:
        state = "FAIL" if not finding.ok else "note" if finding.message else "ok"
        about = finding.message or (CHECKS[finding.check].__doc__ or "").splitlines()[0]
        lines.append(f"  {state:4}  {finding.check:13}  {about}")
    failed = [finding.check for finding in findings if not finding.ok]
    left = [name for name in CHECKS if name not in {finding.check for finding in findings}]
    if left:
        lines.append(f"not run, since they need what failed: {', '.join(left)}")
    lines.append(f"{gem.name} fails {', '.join(failed)}" if failed else f"{gem.name} passes all {len(findings)} checks")
    return lines, failed
