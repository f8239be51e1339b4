//! Certificates made while they are asked for: an authority of the test's own, and what is wrong with its work.

use std::fmt;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// What is wrong with the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Nobody known has signed them.
    SelfSigned,
    /// Their time is over.
    Expired,
    /// They are for another name.
    WrongHost,
}

/// Makes a certificate for whatever name a client greets with.
pub struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    fault: Fault,
    /// Names that are not greeted back at all.
    silent: Vec<String>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Certificates")
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// Makes the authority.
    ///
    /// # Errors
    /// What the generator says.
    pub fn new(fault: Fault, silent: Vec<String>) -> Result<Arc<Self>, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Arc::new(Self {
            authority,
            fault,
            silent,
        }))
    }

    /// The authority's own certificate in PEM: what a client has to trust.
    pub fn root(&self) -> String {
        self.authority.pem()
    }

    /// A certificate for a name, and its key, in PEM: for servers that read files.
    ///
    /// # Errors
    /// What the generator says.
    pub fn files(&self, name: &str) -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![name.to_owned()])?;
        let certificate = params.signed_by(&key, &self.authority)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// A server's end that answers with these.
    pub(crate) fn server(self: &Arc<Self>) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.expect("the provider knows the usual versions");
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(self) as Arc<_>;
        let config = builder.with_no_client_auth().with_cert_resolver(resolver);
        Arc::new(config)
    }

    fn make(&self, name: &str) -> Result<CertifiedKey, rcgen::Error> {
        let subject = match self.fault {
            Fault::WrongHost => "someone-else.test".to_owned(),
            Fault::None | Fault::SelfSigned | Fault::Expired => name.to_owned(),
        };
        let mut params = CertificateParams::new(vec![subject])?;
        if self.fault == Fault::Expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate()?;
        let certificate = match self.fault {
            Fault::SelfSigned => params.self_signed(&key)?,
            Fault::None | Fault::Expired | Fault::WrongHost => {
                params.signed_by(&key, &self.authority)?
            }
        };
        let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let signer = any_supported_type(&secret).expect("a key that was just made");
        Ok(CertifiedKey::new(vec![certificate.der().clone()], signer))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        if self.silent.iter().any(|silent| silent == name) {
            return None;
        }
        self.make(name).ok().map(Arc::new)
    }
}
