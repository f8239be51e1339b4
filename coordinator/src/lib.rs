//! The coordinator: who owns what.
//!
//! Shards (`shard`) own the frontier, each the only writer of its slice; the desk (`desk`) owns the life of sessions;
//! `fleet` knows the workers. Decisions are pure and take `now`; actors carry them out: call the core, commit, then
//! tell. The catalog reads past the actors. The doors are in `grpc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::v1::fleet_server::FleetServer;
use proto::v1::sessions_server::SessionsServer;
use proto::{Clock, CompiledScope, CrawlUrl, MAX_MESSAGE_BYTES};
use ractor::{Actor, ActorRef};
use tokio::task::AbortHandle;
use tonic::service::Routes;

pub mod body_store;
mod catalog;
mod config;
mod desk;
mod fleet;
mod fleet_actor;
mod gate;
mod grpc;
mod keys;
mod metrics;
mod order;
mod records;
pub mod ring;
mod shard;
mod shards;
mod slice;
pub mod store;
mod sweep;

pub use config::{Config, StartError};
pub use metrics::describe_metrics;

use crate::body_store::BodyStore;
use crate::catalog::{Catalog, resumed_phase};
use crate::desk::{Desk, DeskHandle};
use crate::fleet::Fleet;
use crate::fleet_actor::{FleetActor, FleetHandle};
use crate::gate::{Directory, SessionShared};
use crate::grpc::fleet::FleetDoor;
use crate::grpc::requests::Requests;
use crate::grpc::sessions::SessionDoor;
use crate::shard::Policy;
use crate::shards::{Mailroom, ParentMsg, SHUTDOWN, ShardsParent, Surroundings};
use crate::store::committer::Committer;
use crate::store::fjall::FjallStore;
use crate::store::sled::SledStore;
use crate::store::{Ack, Batch, Store, Table};
use crate::sweep::Sweeper;

const STOP_WITHIN: Duration = Duration::from_secs(10);
const SHARD_COUNT: &[u8] = b"shards";

/// A running coordinator.
pub struct Coordinator {
    sessions: SessionDoor,
    fleet: FleetDoor,
    parent: ActorRef<ParentMsg>,
    sweep: AbortHandle,
    committers: [Arc<Committer>; 2],
    is_ready: AtomicBool,
}

impl Coordinator {
    /// Opens the stores, rebuilds the shards, and goes on with the sessions that had not ended.
    pub async fn start(config: Config, clock: Clock) -> Result<Self, StartError> {
        check(&config)?;
        let bulk: Arc<dyn Store> = Arc::new(FjallStore::open(&config.data_dir.join("shards"))?);
        let control: Arc<dyn Store> = Arc::new(SledStore::open(&config.data_dir.join("control"))?);
        check_shards(&config, control.as_ref())?;
        let bodies = BodyStore::open(&config.data_dir.join("bodies"));
        let bodies = Arc::new(bodies.map_err(|error| StartError::Bodies(error.to_string()))?);
        let catalog = Catalog {
            bulk_committer: Arc::new(Committer::start(bulk.clone())?),
            control_committer: Arc::new(Committer::start(control.clone())?),
            bulk,
            control,
            bodies,
            shards: config.shards,
        };
        Self::over(config, clock, catalog).await
    }

    async fn over(config: Config, clock: Clock, catalog: Catalog) -> Result<Self, StartError> {
        let directory = Directory::default();
        let fleet = Fleet::default();
        let handle = DeskHandle::new();
        let mailroom = Mailroom::new(config.shards);
        resume(&catalog, &directory, &handle)?;
        let around = Surroundings {
            store: catalog.bulk.clone(),
            committer: catalog.bulk_committer.clone(),
            policy: policy(&config),
            clock,
            directory: directory.clone(),
            fleet: fleet.clone(),
            mailroom: mailroom.clone(),
            desk: handle.clone(),
        };
        let desk = Desk {
            clock,
            catalog: catalog.clone(),
            directory: directory.clone(),
            mailroom: mailroom.clone(),
            handle: handle.clone(),
            session_ttl: config.session_ttl,
        };
        let members = FleetHandle::default();
        let fleet_actor = FleetActor {
            clock,
            fleet: fleet.clone(),
            mailroom: mailroom.clone(),
            handle: members.clone(),
        };
        let family = ShardsParent {
            around,
            desk,
            fleet: fleet_actor,
        };
        let (parent, _) = Actor::spawn(None, family, ())
            .await
            .map_err(|error| StartError::Actor(error.to_string()))?;
        let committers = [
            catalog.bulk_committer.clone(),
            catalog.control_committer.clone(),
        ];
        let sweeper = Sweeper {
            clock,
            catalog: catalog.clone(),
        };
        let sweep = tokio::spawn(sweeper.run()).abort_handle();
        Ok(Self {
            sweep,
            fleet: FleetDoor {
                clock,
                fleet: fleet.clone(),
                members,
                mailroom,
                bodies: catalog.bodies.clone(),
                token: config.token,
                lease: config.lease,
                heartbeat: config.heartbeat,
            },
            sessions: SessionDoor {
                clock,
                catalog,
                directory,
                desk: handle,
                fleet,
                allow_ignore_robots: config.allow_ignore_robots,
                max_running: config.max_running_sessions,
                requests: Requests::default(),
                started: clock.now(),
            },
            parent,
            committers,
            is_ready: AtomicBool::new(true),
        })
    }

    /// The doors, to be mounted on TCP, a socket or a pipe.
    pub fn routes(&self) -> Routes {
        let sessions = SessionsServer::new(self.sessions.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let fleet = FleetServer::new(self.fleet.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Routes::new(sessions).add_service(fleet)
    }

    /// Whether it takes work.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Stops the actors and flushes the stores; sessions go on at the next start.
    pub async fn shutdown(&self) {
        self.is_ready.store(false, Ordering::Release);
        self.sweep.abort();
        let stop = Some(SHUTDOWN.to_owned());
        self.parent
            .stop_children_and_wait(stop.clone(), Some(STOP_WITHIN))
            .await;
        if let Err(error) = self.parent.stop_and_wait(stop, Some(STOP_WITHIN)).await {
            tracing::warn!(%error, "the actors did not stop in time");
        }
        for committer in &self.committers {
            committer.close();
        }
    }
}

fn policy(config: &Config) -> Policy {
    Policy {
        min_interval: config.min_interval,
        per_host: config.per_host.max(1),
        per_domain: config.per_domain.max(1),
        lease: config.lease,
        max_redirects: config.max_redirects,
    }
}

fn check(config: &Config) -> Result<(), StartError> {
    if config.shards == 0 || config.shards == keys::COMMON {
        return Err(StartError::Setting {
            field: "shards",
            why: "must be 1 to 65534",
        });
    }
    if config.lease < Duration::from_millis(100) {
        return Err(StartError::Setting {
            field: "lease",
            why: "must be at least 100 ms",
        });
    }
    if config.heartbeat * 2 > config.lease {
        return Err(StartError::Setting {
            field: "heartbeat",
            why: "must be at most half of `lease`",
        });
    }
    Ok(())
}

fn check_shards(config: &Config, control: &dyn Store) -> Result<(), StartError> {
    match control.get(Table::Settings, SHARD_COUNT)? {
        Some(bytes) => {
            let found = <[u8; 2]>::try_from(bytes.as_ref()).map_or(0, u16::from_be_bytes);
            if found == config.shards {
                return Ok(());
            }
            Err(StartError::Shards {
                path: config.data_dir.display().to_string(),
                found,
                wanted: config.shards,
            })
        }
        None => {
            let mut batch = Batch::default();
            let count = config.shards.to_be_bytes().to_vec();
            batch.put(Table::Settings, SHARD_COUNT.to_vec(), count);
            Ok(control.commit(&[batch], Ack::Disk)?)
        }
    }
}

/// Takes up the sessions that had not ended.
fn resume(catalog: &Catalog, directory: &Directory, desk: &DeskHandle) -> Result<(), StartError> {
    for (id, status, before) in catalog.unfinished()? {
        let spec = status.spec.clone().unwrap_or_default();
        let seeds: Vec<CrawlUrl> = spec
            .seeds
            .iter()
            .filter_map(|seed| CrawlUrl::parse(seed).ok())
            .collect();
        let scope = spec.scope.clone().unwrap_or_default();
        let scope = match CompiledScope::compile(&scope, &seeds) {
            Ok(scope) => scope,
            Err(error) => {
                tracing::error!(session = %id, %error, "a stored session cannot go on");
                continue;
            }
        };
        let started = proto::Timestamp::from_millis(status.started_at_millis);
        let phase = resumed_phase(status.state());
        let shared = Arc::new(SessionShared::new(id, spec, scope, phase, &before, started));
        desk.open(&shared.id, status);
        directory.insert(shared);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
