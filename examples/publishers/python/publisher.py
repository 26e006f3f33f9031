"""A publisher of announcements as docs/publishing.md describes it; as a program it takes orders from standard input."""

import json
import queue
import sys
import threading
import time
import uuid
from concurrent.futures import Future
from datetime import datetime, timezone

import boto3
from botocore.config import Config


class Publisher:
    """Numbers what any thread hands over and sends it in order. Each call returns a Future: the number, once sent.
    `through()` is the UTC datetime through which every change at the source was handed over; None: not known yet."""
    def __init__(self, topic, through, name=None):
        self.topic, self.through, self.name = topic, through, name or str(uuid.uuid4())  # new with each process
        once = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})  # _send_all tries again
        self.sns = boto3.client("sns", region_name=topic.split(":")[3], config=once)
        self.last, self.signed_off, self.turn, self.queue = 0, False, threading.Lock(), queue.SimpleQueue()
        for work in (self._send_all, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def changed(self, record_type, key, version):
        return self._say("CHANGED", recordType=record_type, key=key, version=str(int(version)))  # 64 bits: a string

    def deleted(self, record_type, key, version):
        return self._say("DELETED", recordType=record_type, key=key, version=str(int(version)))

    def reload(self, record_type):
        return self._say("RELOAD", recordType=record_type)

    def close(self):  # signs off once all is sent; raises TimeoutError if that takes longer than 30 s
        self._say("HEARTBEAT", ingestedThrough=self.through(), signingOff=True).result(30)

    def _beat(self):
        while not self.signed_off:  # it takes its place like the others: it must not overtake what it vouches for
            self._say("HEARTBEAT", ingestedThrough=self.through()).result()
            time.sleep(5)

    def _say(self, kind, **said):
        done, counts = Future(), kind != "HEARTBEAT"
        done.set_running_or_notify_cancel()  # from here on it cannot be cancelled, which would leave a hole
        if counts:
            said["ingestedAt"] = datetime.now(timezone.utc)
        with self.turn:  # a number and its place are taken together
            if self.signed_off or (counts and self.queue.qsize() >= 1000):
                raise BufferError("not taken: 1,000 announcements wait, or the publisher has signed off")
            number = self.last + counts  # a heartbeat repeats the last one
            said.update(kind=kind, publisher=self.name, sequence=str(number))
            self.queue.put((number, json.dumps(said, default=datetime.isoformat), done))
            self.last, self.signed_off = number, "signingOff" in said
        return done

    def _send_all(self):
        while True:
            number, text, done = self.queue.get()
            while not done.done():
                try:
                    self.sns.publish(TopicArn=self.topic, Message=text)
                    done.set_result(number)
                except Exception as error:  # whatever it was, what comes later must not overtake this
                    print(f"number {number} goes again in a second: {error}", file=sys.stderr)
                    time.sleep(1)


if __name__ == "__main__":
    publisher = Publisher(sys.argv[1], lambda: datetime.now(timezone.utc), *sys.argv[2:])  # a line is a change made
    orders = {"changed": publisher.changed, "deleted": publisher.deleted, "reload": publisher.reload}
    orders["wait"] = lambda seconds: time.sleep(float(seconds))
    for order, *rest in filter(None, map(str.split, sys.stdin)):
        try:
            if done := orders[order](*rest):
                print("announced", done.result(), flush=True)
        except (KeyError, TypeError, ValueError):
            print("orders: changed|deleted TYPE KEY VERSION, reload TYPE, wait SECONDS", file=sys.stderr)
    publisher.close()
