//! get_version.

use serde_json::json;

use super::Call;
use crate::answer::Answer;
use crate::error::Fault;

pub(super) async fn get_version(call: &Call<'_>) -> Result<Answer, Fault> {
    let mut told = json!({ "version": call.shared.config.version });
    // The version of this process is an answer even when the cluster is away.
    if let Ok(cluster) = call.shared.sessions.cluster().await {
        told["coordinator"] = json!(cluster.version);
        told["workers"] = json!(cluster.workers.len());
    }
    Ok(Answer::new(told.to_string(), told))
}
