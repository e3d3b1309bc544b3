#!/bin/sh
# What a VM of a pool runs when it boots. This is a template: each name in double braces becomes one word of
# shell, in quotes where that needs them. The names are master, attributes, resources, notice_url, key, lease,
# pool and cluster. Wanted of the image are mesos-agent, Java, and Spark where the config's spark.versions has it.
#
# Whoever can run something on the VM can read its user data. So nothing of the daemon's is here but the key by
# which this VM, and no other, can be said to be going away.
set -eu

umask 077
mkdir -p /etc/stoker
printf '%s\n' {{notice_url}} {{key}} > /etc/stoker/notice
cat > /etc/stoker/watch << 'END'
import json, os, time, urllib.error, urllib.request

METADATA = os.environ.get("METADATA", "http://169.254.169.254/latest")


def ask(url, method, headers, data=None):
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read(65536)


def tell(url, key, notice):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    try:
        ask(url, "POST", headers, notice)
    except urllib.error.HTTPError as error:
        if error.code != 307:
            raise
        ask(error.headers["Location"], "POST", headers, notice)  # another daemon leads


with open("/etc/stoker/notice") as file:
    url, key = file.read().split()
told = None
while True:
    try:
        token = ask(METADATA + "/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}).decode()
        path = METADATA + "/meta-data/spot/instance-action"
        notice = ask(path, "GET", {"X-aws-ec2-metadata-token": token})
        if notice != told:
            tell(url, key, notice)
            told = notice
    except OSError as error:
        if getattr(error, "code", None) != 404:  # 404: nobody takes the VM away
            print(error, flush=True)
    time.sleep(5)
END
systemd-run --unit=stoker-watch --property=Restart=always python3 /etc/stoker/watch
umask 022

# Jobs run as others than root, and have no business with what the VM is told of itself.
iptables -I OUTPUT -d 169.254.169.254 -m owner ! --uid-owner 0 -j REJECT ||
    echo "jobs can read this VM's user data" >&2

systemd-run --unit=mesos-agent --property=Restart=always mesos-agent --work_dir=/var/lib/mesos \
    --master={{master}} --attributes={{attributes}} --resources={{resources}}
