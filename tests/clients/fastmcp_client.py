"""The fastmcp client against crawlforge: a scrape, a crawl with progress, a cancel, a resource, a prompt.

usage: fastmcp_client.py SITE_URL PAGES http ENDPOINT | SITE_URL PAGES stdio COMMAND ARG...
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import McpError, ToolError

site, pages, kind, *target = sys.argv[1:]
if kind == "http":
    transport = StreamableHttpTransport(target[0])
else:
    transport = StdioTransport(command=target[0], args=target[1:])


async def talk(client: Client) -> dict:
    names = [tool.name for tool in await client.list_tools()]
    assert "crawl" in names, names

    scraped = await client.call_tool("scrape", {"url": site})
    assert "no other page says so" in scraped.content[0].text, scraped
    assert "no other page says so" in scraped.structured_content["markdown"], scraped

    steps = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    wanted = {"url": site, "max_pages": 100, "max_depth": 10}
    crawled = await client.call_tool("crawl", wanted, progress_handler=progressed, timeout=100)
    crawl = crawled.structured_content["session_id"]
    assert steps and steps == sorted(set(steps)), f"progress rises: {steps}"

    begun = await client.call_tool("crawl", {**wanted, "wait": False})
    control = {"action": "cancel", "session_id": begun.structured_content["session_id"]}
    stopped = await client.call_tool("crawl_control", control)
    assert stopped.structured_content["state"] == "cancelled", stopped

    read = await client.read_resource(f"crawlforge://crawl/{crawl}/sitemap")
    sitemap = json.loads(read[0].text)
    assert sitemap["count"] == int(pages), sitemap

    prompt = await client.get_prompt("research-deep-dive", {"topic": "web crawlers", "depth": "deep"})
    assert "150 pages" in prompt.messages[0].content.text, prompt

    try:
        await client.call_tool("scrape", {"url": site, "nonsense": 1})
    except (McpError, ToolError) as error:
        assert "nonsense" in str(error), error
    else:
        raise AssertionError("an unknown argument is refused by name")
    return {"era": str(client.protocol_version), "tools": len(names), "pages": sitemap["count"], "progress": len(steps)}


async def main() -> None:
    async with Client(transport) as client:
        print(json.dumps(await talk(client)))


asyncio.run(main())
