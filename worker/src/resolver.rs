//! From names to addresses that the guard lets through.
//!
//! The HTTP client connects to exactly the addresses that come out of here, so a name that changes its answer between
//! a check and a connection gains nothing. Address literals never reach a resolver; the fetcher checks those itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use reqwest::dns::{Addrs, Name, Resolve as DnsResolve, Resolving};

use crate::config::Resolve;
use crate::guard::{Blocked, Guard};
use crate::metrics;

/// How long a look-up may take.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(5);

/// Why a name gives no address to connect to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ResolveError {
    /// All its addresses are refused.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// There is no such name, or nobody could say.
    #[error("the name `{name}` does not resolve: {why}")]
    Unknown {
        /// The name.
        name: String,
        /// What the name servers said.
        why: String,
        /// Nobody could say; another time somebody may.
        is_temporary: bool,
    },
}

/// Rules first, then the system's name servers, then the guard. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    rules: Arc<[Resolve]>,
    guard: Guard,
    dns: TokioResolver,
}

impl Resolver {
    /// Builds a resolver that asks `name_servers`, or the system's when none is given. Without a readable system
    /// configuration only rules answer.
    pub fn new(
        rules: Vec<Resolve>,
        name_servers: &[SocketAddr],
        guard: Guard,
    ) -> Result<Self, String> {
        let with =
            |config| TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let mut builder = match TokioResolver::builder_tokio() {
            _ if !name_servers.is_empty() => with(config_of(name_servers)),
            Ok(builder) => builder,
            Err(error) => {
                tracing::warn!(%error, "no name servers are configured on this machine");
                with(ResolverConfig::default())
            }
        };
        let options = builder.options_mut();
        options.cache_size = 4096;
        options.timeout = Duration::from_secs(2);
        options.attempts = 2;
        let dns = builder.build().map_err(|error| error.to_string())?;
        Ok(Self {
            rules: rules.into(),
            guard,
            dns,
        })
    }

    /// The guard that judges addresses.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The addresses of `name` that may be connected to; at least one.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let bare = bare(name);
        let found = match self.by_rule(&bare) {
            Some(rule) => vec![rule.address],
            None => self.look_up(&bare).await?,
        };
        let mut refused = None;
        let mut let_through = Vec::new();
        for address in found {
            match self.guard.check(address) {
                Ok(()) => let_through.push(address),
                Err(blocked) => refused = Some(blocked),
            }
        }
        match (let_through.is_empty(), refused) {
            (true, Some(blocked)) => {
                ::metrics::counter!(metrics::GUARD_REFUSED, "stage" => "resolve").increment(1);
                Err(blocked.into())
            }
            (true, None) => Err(unknown(name, "it has no address", false)),
            (false, _) => Ok(let_through),
        }
    }

    fn by_rule(&self, name: &str) -> Option<&Resolve> {
        let exact = self.rules.iter().find(|rule| rule.pattern == name);
        let below = || {
            self.rules.iter().find(|rule| {
                let suffix = rule.pattern.strip_prefix('*');
                suffix.is_some_and(|suffix| name.ends_with(suffix) && name.len() > suffix.len())
            })
        };
        exact.or_else(below)
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        // RFC 6761, 6.3: these names are loopback and are not asked of anybody.
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(vec![IpAddr::from([127, 0, 0, 1])]);
        }
        let asked = self.dns.lookup_ip(format!("{name}."));
        match tokio::time::timeout(LOOK_UP_WITHIN, asked).await {
            Ok(Ok(found)) => Ok(found.iter().collect()),
            Ok(Err(error)) if error.is_nx_domain() => {
                Err(unknown(name, "there is no such name", false))
            }
            Ok(Err(error)) if error.is_no_records_found() => {
                Err(unknown(name, "it has no address", false))
            }
            Ok(Err(error)) => Err(unknown(name, &error.to_string(), true)),
            Err(_) => Err(unknown(name, "no name server answered in time", true)),
        }
    }
}

fn bare(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn config_of(name_servers: &[SocketAddr]) -> ResolverConfig {
    let servers = name_servers.iter().map(|address| {
        let at_port = |mut connection: ConnectionConfig| {
            connection.port = address.port();
            connection
        };
        let connections = vec![
            at_port(ConnectionConfig::udp()),
            at_port(ConnectionConfig::tcp()),
        ];
        NameServerConfig::new(address.ip(), true, connections)
    });
    ResolverConfig::from_name_servers(servers.collect())
}

fn unknown(name: &str, why: &str, is_temporary: bool) -> ResolveError {
    ResolveError::Unknown {
        name: name.to_owned(),
        why: why.to_owned(),
        is_temporary,
    }
}

impl DnsResolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let found = resolver.addresses(name.as_str()).await?;
            // The client takes the scheme's own port for 0, and the URL's where it names one.
            let port = resolver.by_rule(&bare(name.as_str()));
            let port = port.and_then(|rule| rule.port).unwrap_or(0);
            let sockets: Vec<SocketAddr> = found
                .into_iter()
                .map(|address| SocketAddr::new(address, port))
                .collect();
            let all: Addrs = Box::new(sockets.into_iter());
            Ok(all)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ResolveError, Resolver};
    use crate::config::Resolve;
    use crate::guard::Guard;

    fn resolver(rules: &[(&str, &str)], allowed: &[&str]) -> Resolver {
        let rules = rules
            .iter()
            .map(|(pattern, address)| Resolve {
                pattern: (*pattern).to_owned(),
                address: address.parse().unwrap(),
                port: None,
            })
            .collect();
        let allowed = allowed.iter().map(|net| net.parse().unwrap()).collect();
        Resolver::new(rules, &[], Guard::new(allowed)).unwrap()
    }

    #[tokio::test]
    async fn a_rule_answers_before_anybody_is_asked() {
        let rules = [("*.test", "127.0.0.1"), ("one.test", "127.0.0.2")];
        let resolver = resolver(&rules, &["127.0.0.0/8"]);
        assert_eq!(
            resolver.addresses("a.b.test").await.unwrap()[0].to_string(),
            "127.0.0.1"
        );
        assert_eq!(
            resolver.addresses("ONE.test.").await.unwrap()[0].to_string(),
            "127.0.0.2"
        );
    }

    #[tokio::test]
    async fn the_guard_judges_what_a_rule_says_too() {
        let resolver = resolver(&[("inner.test", "192.168.7.7")], &[]);
        let refused = resolver.addresses("inner.test").await.unwrap_err();
        assert!(matches!(refused, ResolveError::Blocked(_)), "{refused}");
        let local = resolver.addresses("localhost").await.unwrap_err();
        assert!(local.to_string().contains("--allow-net"), "{local}");
    }
}
