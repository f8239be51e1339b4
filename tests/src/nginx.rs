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
    child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Serves the files below `root`; a folder without an index lists what is in it.
    pub fn start(root: &Path) -> Result<Self> {
        let folder = TempDir::new()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        drop(listener);
        let at = folder.path().display();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log {at}/error.log;\nevents {{}}\n\
             http {{\n  include /etc/nginx/mime.types;\n  access_log {at}/access.log;\n  sendfile on;\n\
             \x20 client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n\
             \x20 fastcgi_temp_path {at}/fastcgi;\n  uwsgi_temp_path {at}/uwsgi;\n  scgi_temp_path {at}/scgi;\n\
             \x20 server {{ listen {address}; root {}; autoindex on; }}\n}}\n",
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
            child,
            _folder: folder,
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

impl Drop for Nginx {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        drop(ended);
    }
}
