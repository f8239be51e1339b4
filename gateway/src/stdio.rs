//! MCP over stdin and stdout, until stdin ends. Sessions go on in the coordinator.

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::server::Connection;

/// Why serving over stdio ended badly.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client's opening could not be understood.
    #[error("the client's opening could not be answered")]
    Opening(#[source] Box<ServerInitializeError>),
    /// The task that served the connection broke.
    #[error("the connection's task broke")]
    Task(#[from] tokio::task::JoinError),
}

impl Gateway {
    /// Serves one client over stdin and stdout until stdin ends or `shutdown` fires.
    pub async fn serve_stdio(&self, shutdown: CancellationToken) -> Result<(), StdioError> {
        let (reader, writer) = rmcp::transport::io::stdio_pipes();
        self.serve_io(reader, writer, shutdown).await
    }

    /// Serves one client over any pair of byte streams, one JSON message a line.
    pub async fn serve_io<R, W>(
        &self,
        reader: R,
        writer: W,
        shutdown: CancellationToken,
    ) -> Result<(), StdioError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let connection = Connection::new(self.shared.clone());
        match connection.serve_with_ct((reader, writer), shutdown).await {
            Ok(running) => {
                running.waiting().await?;
                Ok(())
            }
            // The client left, or we were told to stop, before anything was said.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(StdioError::Opening(Box::new(error))),
        }
    }
}
