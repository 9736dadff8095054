"""Certificates that are made for a test, by the openssl program."""

import ssl
import subprocess


class Authority:
    """Makes certificates by the openssl program."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate = folder / f"{name}.pem"
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", self.certificate)

    @staticmethod
    def _openssl(*arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def issue(self, name):
        """(certificate, key) of a name and of the loopback address, as files."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", key, "-out", request)
        self._openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.certificate,
                      "-CAkey", self.folder / f"{self.name}.key", "-CAcreateserial", "-extfile", extensions,
                      "-out", certificate)
        return certificate, key

    def context(self, client=None, **more):
        context = ssl.create_default_context(cafile=str(self.certificate))
        for name, value in more.items():
            setattr(context, name, value)
        if client:
            context.load_cert_chain(*client)
        return context
