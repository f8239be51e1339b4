//! HTTP/2 over TLS, as Debian's nginx speaks it, to the real command: by a certificate of a private authority
//! (`--ca-file`), at an address that a rule names with its port (`--resolve`).

use std::path::Path;

use anyhow::Result;
use tests::certificates::{Certificates, Fault};
use tests::command::{Crawl, text};
use tests::nginx::{NGINX, Nginx};

#[test]
fn a_site_is_captured_over_http2_and_compressed() -> Result<()> {
    if !Path::new(NGINX).exists() {
        println!("SKIPPED: {NGINX} is missing; tests/setup installs it");
        return Ok(());
    }
    let site = tempfile::tempdir()?;
    let mut links = String::new();
    for at in 0..20 {
        links += &format!("<a href=/{at}.html>{at}</a>");
        let page = format!(
            "<title>{at}</title>{}",
            format!("<p>words of page {at}</p>").repeat(50)
        );
        std::fs::write(site.path().join(format!("{at}.html")), page)?;
    }
    std::fs::write(site.path().join("index.html"), links)?;
    let certificates = Certificates::new(Fault::None, Vec::new())?;
    let nginx = Nginx::start_tls(site.path(), &certificates.files("docs.test")?)?;
    let authority = site.path().join("authority.pem");
    std::fs::write(&authority, certificates.root())?;
    let place = nginx.tls.expect("an address for TLS");
    let flags = [
        format!("--ca-file={}", authority.display()),
        format!("--resolve=docs.test={place}"),
        "--allow-net=127.0.0.0/8".into(),
        "--min-interval=0".into(),
    ];
    let crawl = Crawl::with(&["https://docs.test/".into()], &flags)?;
    let summary = crawl.summary()?;
    assert_eq!(summary["pages"], 21, "{summary}");
    let pages = crawl.manifest()?;
    let ninth = pages
        .iter()
        .find(|row| text(row, "url").ends_with("/9.html"));
    let content = ninth.map(|row| text(row, "content")).unwrap_or_default();
    assert!(content.contains("words of page 9"), "{content}");
    let log = nginx.log()?;
    let secure: Vec<&String> = log.iter().filter(|line| !line.contains("HTTP/1")).collect();
    assert_eq!(secure.len(), 22, "21 pages and robots.txt: {log:#?}");
    assert!(
        secure.iter().all(|line| line.starts_with("HTTP/2.0 ")),
        "{log:#?}"
    );
    Ok(())
}
