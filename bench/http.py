#!/usr/bin/python3
"""Compares `caudal serve` with nginx as servers of a decision over HTTP.

Both run with one worker in the same run and answer wrk on loopback: nginx by limit_req and the smallest content it has,
caudal by a token bucket on /check. (Not by `return 204`: nginx obeys `return` before it comes to limit_req, and then nothing
is limited.) They take turns, A B A B, at 0 % and at about 90 % of refused requests. Told are the processor time of the
answering process for one request (user and system, from /proc) and requests per second, as medians with the lowest and the
highest round, and the ratio caudal / nginx, round by round.

    bench/http.py build/release/src/caudal --json build/release/http.json

Uses nothing but the standard library, wrk and nginx.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile

from measuring import Server, fail, free_port, in_turns, ratios, span, start_caudal, summaries

# Requests a second that are let through in the runs with refusals; what wrk sends is ten times as much or more.
ADMITTED = 4000

NGINX = """
daemon off; master_process off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/nginx.log crit;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000; limit_req_status 429; limit_req_log_level info;
    limit_req_zone $binary_remote_addr zone=open:10m rate=10000000r/s;
    limit_req_zone $binary_remote_addr zone=tight:10m rate={rate}r/s;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
    scgi_temp_path {dir}/s;
    server {{ listen 127.0.0.1:{open}; location / {{ limit_req zone=open burst=1000000 nodelay; empty_gif; }} }}
    server {{ listen 127.0.0.1:{tight}; location / {{ limit_req zone=tight burst=100 nodelay; empty_gif; }} }}
}}
"""

CAUDAL = """
limits:
  - {{name: open, when: {{host: open.example}}, per: [client_ip], rate: 10000000/second burst 1000000}}
  - {{name: tight, when: {{host: tight.example}}, per: [client_ip], rate: {rate}/second burst 100}}
listen: {{workers: 1}}
"""

HOST = {"open": "open.example", "tight": "tight.example"}


def start_nginx(directory):
    open_port, tight_port = free_port(), free_port()
    path = os.path.join(directory, "nginx.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(NGINX.format(dir=directory, open=open_port, tight=tight_port, rate=ADMITTED))
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    urls = {"open": f"http://127.0.0.1:{open_port}/check", "tight": f"http://127.0.0.1:{tight_port}/check"}
    server = Server("nginx", [program, "-c", path, "-p", directory], [open_port, tight_port])
    server.urls = urls
    return server


def start_ours(program, directory):
    server = start_caudal("caudal", program, directory, CAUDAL.format(rate=ADMITTED), "http")
    server.urls = dict.fromkeys(HOST, f"http://127.0.0.1:{server.port}/check")
    return server


def measure(server, share, arguments):
    """One round: processor microseconds a request, requests a second, the share that was refused."""
    before = server.processor_seconds()
    command = ["wrk", "-t", "1", "-c", str(arguments.connections), "-d", f"{arguments.seconds}s", "-H",
               f"Host: {HOST[share]}", *getattr(server, "wrk", ()), server.urls[share]]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = server.processor_seconds() - before
    requests = int(re.search(r"(\d+) requests in", text)[1])
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if "Socket errors" in text:
        fail(f"{server.name}: {text}")
    return {
        "cpu_us": spent * 1e6 / requests,
        "per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
        "refused": int(refused[1]) / requests if refused else 0.0,
    }


def compare(servers, share, arguments):
    results = in_turns(arguments.rounds, {server.name: lambda server=server: measure(server, share, arguments)
                                          for server in servers})
    told = {name: summaries(rounds) for name, rounds in results.items()}
    told["ratio"] = {key: ratios(results["caudal"], results["nginx"], key) for key in ("cpu_us", "per_second")}
    return told


def show(share, told):
    print(f"\n{share}: refused {told['caudal']['refused']['median']:.1%} by caudal, "
          f"{told['nginx']['refused']['median']:.1%} by nginx")
    print(f"  {'':24}{'caudal':>28}{'nginx':>28}{'caudal / nginx':>24}")
    for key, title, digits in (("cpu_us", "processor us a request", 2), ("per_second", "requests a second", 0)):
        print(f"  {title:24}{span(told['caudal'][key], digits):>28}{span(told['nginx'][key], digits):>28}"
              f"{span(told['ratio'][key], 3):>24}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="caudal, as built for release")
    parser.add_argument("--json", help="writes the numbers there, too")
    parser.add_argument("--rounds", type=int, default=7, help="of each server, after a warm-up")
    parser.add_argument("--seconds", type=int, default=3, help="a round")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--share", choices=["open", "tight", "both"], default="both")
    arguments = parser.parse_args()
    print(f"one worker each, {arguments.connections} connections on loopback, {arguments.rounds} rounds of "
          f"{arguments.seconds} s, medians (lowest..highest)")
    results = {}
    with tempfile.TemporaryDirectory(prefix="caudal-bench-") as directory:
        servers = [start_ours(arguments.program, directory), start_nginx(directory)]
        try:
            for share in ("open", "tight"):
                if arguments.share in (share, "both"):
                    results[share] = compare(servers, share, arguments)
                    show(share, results[share])
        finally:
            for server in servers:
                server.stop()
    if arguments.json:
        with open(arguments.json, "w", encoding="ascii") as file:
            json.dump({"rounds": arguments.rounds, "seconds": arguments.seconds, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
