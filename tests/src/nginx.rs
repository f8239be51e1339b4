//! Debian's nginx on loopback, serving a folder with a configuration of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::process::{get, wait_for};

/// Where Debian puts it.
pub const NGINX: &str = "/usr/sbin/nginx";
const START_WITHIN: Duration = Duration::from_secs(10);

/// A running server. Stops when dropped.
pub struct Nginx {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it speaks TLS and HTTP/2, if it was given a certificate.
    pub tls: Option<SocketAddr>,
    child: Child,
    folder: TempDir,
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

impl Nginx {
    /// Serves the files below `root`; a folder without an index lists what is in it.
    pub fn start(root: &Path) -> Result<Self> {
        Self::with(root, None)
    }

    /// The same over TLS and HTTP/2 as well, by a certificate and its key in PEM.
    pub fn start_tls(root: &Path, files: &(String, String)) -> Result<Self> {
        Self::with(root, Some(files))
    }

    fn with(root: &Path, files: Option<&(String, String)>) -> Result<Self> {
        let folder = TempDir::new()?;
        let address = free_address()?;
        let tls = files.map(|_| free_address()).transpose()?;
        let mut secure = String::new();
        if let (Some(tls), Some((certificate, key))) = (tls, files) {
            fs::write(folder.path().join("certificate.pem"), certificate)?;
            fs::write(folder.path().join("key.pem"), key)?;
            let at = folder.path().display();
            secure = format!(
                "listen {tls} ssl http2; ssl_certificate {at}/certificate.pem; ssl_certificate_key {at}/key.pem; "
            );
        }
        let at = folder.path().display();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log {at}/error.log;\nevents {{}}\n\
             http {{\n  include /etc/nginx/mime.types;\n  log_format told '$server_protocol $status $request_uri';\n  access_log {at}/access.log told;\n  sendfile on;\n\
             \x20 client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n\
             \x20 fastcgi_temp_path {at}/fastcgi;\n  uwsgi_temp_path {at}/uwsgi;\n  scgi_temp_path {at}/scgi;\n\
             \x20 gzip on; gzip_min_length 1;\n\
             \x20 server {{ listen {address}; {secure}root {}; autoindex on; }}\n}}\n",
            root.display()
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, config)?;
        let child = Command::new(NGINX)
            .arg("-c")
            .arg(&file)
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start nginx")?;
        let mut server = Self {
            address,
            tls,
            child,
            folder,
        };
        wait_for("nginx", START_WITHIN, || {
            if let Some(status) = server.child.try_wait()? {
                bail!("nginx ended with {status}");
            }
            get(address, "/")
        })?;
        Ok(server)
    }
}

impl Nginx {
    /// Every request so far: protocol, status and path.
    pub fn log(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.folder.path().join("access.log"))?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        drop(ended);
    }
}
