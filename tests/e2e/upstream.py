"""The application behind a proxy: answers with what it was asked, and counts."""

import http.server
import json
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves in one piece, and waits for no acknowledgement of its head

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode("latin-1")
        seen = {"method": self.command, "target": self.path, "body": body, "fields": self.headers.items()}
        with self.server.lock:
            self.server.seen.append(seen)
        answer = json.dumps(seen).encode()
        self.send_response(403 if self.path == "/forbidden" else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_):
        pass


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.seen = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()
