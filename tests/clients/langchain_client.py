"""LangChain's MCP adapters against crawlforge: a scrape, a crawl with progress, a cancel, a resource, a prompt.

usage: langchain_client.py SITE_URL PAGES http ENDPOINT | SITE_URL PAGES stdio COMMAND ARG...
"""

import asyncio
import json
import sys

from langchain_mcp_adapters.callbacks import CallbackContext, Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools

site, pages, kind, *target = sys.argv[1:]
if kind == "http":
    connection = {"transport": "streamable_http", "url": target[0]}
else:
    connection = {"transport": "stdio", "command": target[0], "args": target[1:]}

steps = []


async def progressed(done: float, total: float | None, message: str | None, _: CallbackContext) -> None:
    steps.append(done)


def facts(message) -> dict:
    """What the tool told as an object."""
    return message.artifact["structured_content"]


async def main() -> None:
    callbacks = Callbacks(on_progress=progressed)
    client = MultiServerMCPClient({"crawlforge": connection}, callbacks=callbacks)
    async with client.session("crawlforge") as session:
        loaded = await load_mcp_tools(session, callbacks=callbacks, server_name="crawlforge")
        tools = {tool.name: tool for tool in loaded}

        async def call(name: str, **arguments) -> object:
            given = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
            return await tools[name].ainvoke(given)

        scraped = await call("scrape", url=site)
        assert "no other page says so" in str(scraped.content), scraped
        assert "no other page says so" in facts(scraped)["markdown"], scraped

        crawled = await call("crawl", url=site, max_pages=100, max_depth=10)
        crawl = facts(crawled)["session_id"]
        assert steps and steps == sorted(set(steps)), f"progress rises: {steps}"

        begun = facts(await call("crawl", url=site, max_pages=100, max_depth=10, wait=False))
        stopped = await call("crawl_control", action="cancel", session_id=begun["session_id"])
        assert facts(stopped)["state"] == "cancelled", stopped

        [sitemap] = await load_mcp_resources(session, uris=[f"crawlforge://crawl/{crawl}/sitemap"])
        count = json.loads(sitemap.as_string())["count"]
        assert count == int(pages), sitemap

        given = {"urls": "https://a.test/", "output_format": "text"}
        prompt = await load_mcp_prompt(session, "rag-ingest", arguments=given)
        assert "https://a.test/" in prompt[0].content, prompt
        print(json.dumps({"tools": len(tools), "session": crawl, "pages": count, "progress": len(steps)}))


asyncio.run(main())
