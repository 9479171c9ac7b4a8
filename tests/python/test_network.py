"""Two hosts as network namespaces: ranks behind a slow link that drops packets, and a link that is cut."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from mpi_jobs import environment, gone_within, why_not


def tool(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Hosts:
    """Two namespaces, joined by a link. mpirun runs in the first and reaches the second as it would by ssh."""

    def __init__(self, folder):
        self.names = [f"lm{os.getpid()}{side}" for side in "ab"]
        self.links = [name + "v" for name in self.names]
        first, second = self.names
        try:
            for name in self.names:
                self.do("ip", "netns", "add", name)
                self.do("ip", "-n", name, "link", "set", "lo", "up")
            self.do("ip", "link", "add", self.links[0], "netns", first, "type", "veth", "peer", "name", self.links[1], "netns", second)
            for number, name in enumerate(self.names, 1):
                self.do("ip", "-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", self.links[number - 1])
                self.do("ip", "-n", name, "link", "set", self.links[number - 1], "up")
        except OSError:
            self.close()
            raise
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nshift\nexec ip netns exec {second} unshare --uts sh -c "hostname {second}; $*"\n')
        os.chmod(self.agent, 0o755)

    @staticmethod
    def do(*words):
        done = tool(*words)
        if done.returncode:
            raise OSError(f"{' '.join(words)}: {done.stdout.strip()}")

    def slow(self):
        """1 Mbit/s, and a queue of 12 kB: what does not fit is dropped."""
        for name, link in zip(self.names, self.links):
            self.do("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", link, "root", "tbf", "rate", "1mbit", "burst", "4kb", "limit", "12kb")

    def dropped(self):
        return sum(int(re.search(r"dropped (\d+)", tool("ip", "netns", "exec", name, "tc", "-s", "qdisc", "show", "dev", link).stdout)[1]) for name, link in zip(self.names, self.links))

    def cut(self):
        self.do("ip", "-n", self.names[1], "link", "set", self.links[1], "down")

    def start(self, program, folder, **settings):
        path = os.path.join(folder, "train.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        mca = [word for key, value in (("plm_rsh_agent", self.agent), ("btl", "tcp,self"), ("btl_tcp_if_include", "10.77.0.0/24"), ("oob_tcp_if_include", "10.77.0.0/24"))
               for word in ("--mca", key, value)]
        exported = [word for name in ("PYTHONPATH", "LAMINA_THREADS", "LAMINA_FLIGHT_RECORDS", *settings) for word in ("-x", name)]
        command = f"hostname {self.names[0]}; exec \"$@\""
        return subprocess.Popen(["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", command, "sh", "mpirun", "--allow-run-as-root", "-n", "2",
                                 "-H", f"{self.names[0]}:1,10.77.0.2:1", *mca, *exported, sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=folder, env=environment(LAMINA_FLIGHT_RECORDS=str(folder), **settings))

    def kill(self):
        """All processes of the hosts, which this test has started."""
        for name in self.names:
            for pid in tool("ip", "netns", "pids", name).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def close(self):
        self.kill()
        for name in self.names:
            tool("ip", "netns", "del", name)


def why_no_hosts():
    if why_not():
        return why_not()
    if missing := [name for name in ("ip", "tc", "unshare") if not shutil.which(name)]:
        return f"there is no {missing[0]}, which makes hosts of network namespaces"
    name = f"lmtry{os.getpid()}"
    if tool("ip", "netns", "add", name).returncode:
        return "network namespaces are not permitted here"
    limited = tool("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "4kb", "limit", "12kb")
    tool("ip", "netns", "del", name)
    return f"the system cannot limit a link's rate: {limited.stdout.strip()}" if limited.returncode else ""


pytestmark = pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts())


@pytest.fixture
def hosts(tmp_path):
    made = Hosts(tmp_path)
    yield made
    made.close()


SUMS = """import os
os.write(1, b"pid %d\\n" % os.getpid())
import hashlib, time, numpy as np, lamina as lm
from lamina import distributed as d
first, end = lm._core.distributed.rows_of_rank(8, 8)
x = np.zeros(6000, np.float32)
for step in range(STEPS):
    d.set_step(step)
    leaves = np.stack([np.sin(x + np.float32(shard)) for shard in range(8)])
    x = d.host_all_reduce(leaves[first:end], "grad/w", shards=8).numpy() / 8
    PAUSE
    if d.rank() == 0: print("step", step, flush=True)
d.barrier("end")
if d.rank() == 0: print("sums", hashlib.sha256(x.tobytes()).hexdigest())
"""


def test_a_slow_link_that_drops_packets_costs_time_and_nothing_else(hosts, tmp_path):
    program = SUMS.replace("STEPS", "12").replace("PAUSE", "")
    alone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment()).stdout
    hosts.slow()
    job = hosts.start(program, tmp_path)
    output = job.communicate(timeout=240)[0]
    assert job.returncode == 0 and "lamina: the job ends" not in output, output
    assert re.search(r"sums \w+", output)[0] == re.search(r"sums \w+", alone)[0]
    assert hosts.dropped() > 0


def test_a_cut_link_ends_all_ranks_with_a_report(hosts, tmp_path):
    """mpirun itself then waits for its other host, for as long as the system sends again: the test ends it."""
    job = hosts.start(SUMS.replace("STEPS", "1000").replace("PAUSE", "time.sleep(0.05)"), tmp_path, LAMINA_HEARTBEAT_TIMEOUT="1")
    output = ""
    for line in job.stdout:
        output += line
        if line.startswith("step 3"):
            hosts.cut()
            cut = time.time()
            break
    pids = [int(pid) for pid in re.findall(r"^pid (\d+)", output, re.M)]
    assert len(pids) == 2 and all(gone_within(pid, 5 * 3) for pid in pids), output
    assert time.time() - cut < 5 * 3
    hosts.kill()
    output += job.communicate(timeout=60)[0]
    assert re.search(rf"lamina: the job ends\. rank 1 \(host {hosts.names[1]}, pid \d+\) is lost: no heartbeat for 1(\.\d)? s\n", output), output
