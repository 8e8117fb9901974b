"""The benchmark harness of scripts/bench: servers, load generators, statistics and the table.

Every server and every generator is a process of its own. Figures of different servers are taken in
interleaved rounds and compared by their medians, because only ratios inside one run mean something.
"""
