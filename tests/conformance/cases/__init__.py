"""One file per area; each registers its cases with `kit.case.case`."""
