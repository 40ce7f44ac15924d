"""Events of the audit: what clients did, and whether they were allowed to. Pure: `kraft.runtime.audit` writes them."""
