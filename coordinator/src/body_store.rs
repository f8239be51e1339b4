//! Bodies and what was derived from them, named by their SHA-256.
//!
//! A local folder through `object_store`: `ab/cd/<64 hex digits>`. The store writes a draft and renames it, so a body
//! under its name is whole, also after `kill -9`; what is read whole is checked against its name all the same.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Place;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload};
use proto::{Digest, Timestamp};

/// A body is put before the page that names it is reported; it stays this long without a name.
pub const UNNAMED_FOR: Duration = Duration::from_secs(60 * 60);

/// Why a body is not kept or not to be had.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The bytes are not those that the digest names.
    #[error("{size} bytes do not have the digest {digest:?}")]
    Mismatch {
        /// The name given.
        digest: Digest,
        /// How many bytes there are.
        size: usize,
    },
    /// The folder or bucket fails.
    #[error("the body store failed: {0}")]
    Store(#[from] object_store::Error),
    /// The folder cannot be made.
    #[error("the body folder cannot be used: {0}")]
    Folder(#[from] std::io::Error),
}

/// All bodies; cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyStore {
    objects: Arc<dyn ObjectStore>,
}

impl BodyStore {
    /// Opens a local folder, or makes it.
    pub fn open(folder: &Path) -> Result<Self, BodyError> {
        std::fs::create_dir_all(folder)?;
        let objects = LocalFileSystem::new_with_prefix(folder)?.with_automatic_cleanup(false);
        Ok(Self {
            objects: Arc::new(objects),
        })
    }

    /// Keeps a body. One that is there already is written again only when it is old, so that whoever is about to
    /// name it has all of [`UNNAMED_FOR`] to do so before it may be removed.
    pub async fn put(&self, digest: Digest, body: Bytes, now: Timestamp) -> Result<(), BodyError> {
        if Digest::of(&body) != digest {
            return Err(BodyError::Mismatch {
                digest,
                size: body.len(),
            });
        }
        let place = place(&digest);
        // A body of another size under this name is what a power cut left; it is written again.
        if let Some(found) = self.find(&digest).await?
            && found.size == body.len() as u64
            && age(&found, now) < UNNAMED_FOR / 2
        {
            return Ok(());
        }
        self.objects
            .put(&place, PutPayload::from_bytes(body))
            .await?;
        Ok(())
    }

    /// The whole body, checked.
    pub async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, BodyError> {
        let body = match self.objects.get(&place(digest)).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if Digest::of(&body) != *digest {
            return Err(BodyError::Mismatch {
                digest: *digest,
                size: body.len(),
            });
        }
        Ok(Some(body))
    }

    /// Up to `length` bytes from `offset`.
    pub async fn read(
        &self,
        digest: &Digest,
        offset: u64,
        length: u64,
    ) -> Result<Option<Bytes>, BodyError> {
        let Some(size) = self.size(digest).await? else {
            return Ok(None);
        };
        let end = offset.saturating_add(length).min(size);
        if offset >= end {
            return Ok(Some(Bytes::new()));
        }
        Ok(Some(
            self.objects.get_range(&place(digest), offset..end).await?,
        ))
    }

    /// How many bytes a body has.
    pub async fn size(&self, digest: &Digest) -> Result<Option<u64>, BodyError> {
        Ok(self.find(digest).await?.map(|found| found.size))
    }

    async fn find(&self, digest: &Digest) -> Result<Option<ObjectMeta>, BodyError> {
        match self.objects.head(&place(digest)).await {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a body that no session names, unless it was put lately; answers whether it is gone.
    pub async fn remove_old(&self, digest: &Digest, now: Timestamp) -> Result<bool, BodyError> {
        if let Some(found) = self.find(digest).await? {
            if age(&found, now) < UNNAMED_FOR {
                return Ok(false);
            }
            self.remove(digest).await?;
        }
        Ok(true)
    }

    /// Removes a body, if it is there.
    pub async fn remove(&self, digest: &Digest) -> Result<(), BodyError> {
        match self.objects.delete(&place(digest)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// How long ago a body was put.
fn age(found: &ObjectMeta, now: Timestamp) -> Duration {
    let put = u64::try_from(found.last_modified.timestamp_millis()).unwrap_or(0);
    now.since(Timestamp::from_millis(put))
}

fn place(digest: &Digest) -> Place {
    let name = digest.hex();
    Place::from_iter([&name[..2], &name[2..4], &name])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proto::{Clock, Digest, Timestamp};

    use super::{BodyError, BodyStore, UNNAMED_FOR};

    #[tokio::test]
    async fn a_body_reads_back_whole_and_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = BodyStore::open(folder.path()).unwrap();
        let body = Bytes::from_static(b"some bytes of a page");
        let digest = Digest::of(&body);
        assert_eq!(bodies.get(&digest).await.unwrap(), None);
        for _ in 0..2 {
            bodies
                .put(digest, body.clone(), Timestamp::default())
                .await
                .unwrap();
        }
        assert_eq!(bodies.get(&digest).await.unwrap(), Some(body.clone()));
        let piece = bodies.read(&digest, 5, 5).await.unwrap().unwrap();
        assert_eq!(&piece[..], b"bytes");
        assert_eq!(
            bodies.read(&digest, 100, 5).await.unwrap(),
            Some(Bytes::new())
        );
        assert_eq!(bodies.size(&digest).await.unwrap(), Some(body.len() as u64));
        bodies.remove(&digest).await.unwrap();
        bodies.remove(&digest).await.unwrap();
        assert_eq!(bodies.size(&digest).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_body_under_a_wrong_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = BodyStore::open(folder.path()).unwrap();
        let digest = Digest::of(b"one");
        let refused = bodies
            .put(digest, Bytes::from_static(b"other"), Timestamp::default())
            .await;
        assert!(matches!(refused, Err(BodyError::Mismatch { .. })));
    }

    #[tokio::test]
    async fn a_body_that_was_put_lately_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = BodyStore::open(folder.path()).unwrap();
        let body = Bytes::from_static(b"a page");
        let digest = Digest::of(&body);
        let now = Clock::start().now();
        bodies.put(digest, body, now).await.unwrap();
        assert!(!bodies.remove_old(&digest, now).await.unwrap());
        assert!(bodies.size(&digest).await.unwrap().is_some());
        let later = now + UNNAMED_FOR * 2;
        assert!(bodies.remove_old(&digest, later).await.unwrap());
        assert_eq!(bodies.size(&digest).await.unwrap(), None);
        assert!(bodies.remove_old(&digest, later).await.unwrap());
    }
}
