"""A deterministic simulator of a metadata quorum: the real core under virtual time, network and disk.

One thread, one seed, one trace: `kraft.testing.sim.run.simulate(seed)`.
"""
