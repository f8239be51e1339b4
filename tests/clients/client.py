"""The official Python client against crawlforge: handshake, tools, a scrape, a crawl, resources.

usage: client.py SITE_URL PAGES http ENDPOINT | SITE_URL PAGES stdio COMMAND ARG...
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

site, pages, kind, *target = sys.argv[1:]


@asynccontextmanager
async def streams():
    if kind == "http":
        async with streamablehttp_client(target[0]) as (read, write, _):
            yield read, write
    else:
        server = StdioServerParameters(command=target[0], args=target[1:])
        async with stdio_client(server) as (read, write):
            yield read, write


def urls_in(value):
    if isinstance(value, dict):
        if isinstance(value.get("url"), str):
            yield value["url"]
        for inner in value.values():
            yield from urls_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from urls_in(inner)


async def talk(session: ClientSession) -> dict:
    await session.initialize()
    names = [tool.name for tool in (await session.list_tools()).tools]
    for name in ("scrape", "crawl", "map", "crawl_status", "get_version"):
        assert name in names, f"{name} is listed among {names}"

    scraped = await session.call_tool("scrape", {"url": site})
    assert not scraped.isError, scraped
    assert "no other page says so" in scraped.content[0].text, scraped

    steps = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    crawled = await session.call_tool(
        "crawl",
        {"url": site, "max_pages": 100, "max_depth": 10},
        read_timeout_seconds=timedelta(seconds=100),
        progress_callback=progressed,
    )
    assert not crawled.isError, crawled
    crawl = crawled.meta["session_id"]

    uris, cursor = [], None
    while True:
        listed = await session.list_resources(cursor)
        uris += [str(resource.uri) for resource in listed.resources]
        cursor = listed.nextCursor
        if not cursor:
            break
    sitemap = f"crawlforge://crawl/{crawl}/sitemap"
    assert sitemap in uris, f"{sitemap} is listed among {uris}"
    text = (await session.read_resource(sitemap)).contents[0].text
    urls = list(urls_in(json.loads(text)))
    assert len(urls) == len(set(urls)) == int(pages), f"the sitemap holds every page once: {urls}"

    assert steps, "progress was told"
    assert steps == sorted(set(steps)), f"it rises: {steps}"

    begun = await session.call_tool("crawl", {"url": site, "max_pages": 100, "wait": False})
    control = {"action": "cancel", "session_id": begun.meta["session_id"]}
    stopped = await session.call_tool("crawl_control", control)
    assert stopped.structuredContent["state"] == "cancelled", stopped

    prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
    assert "site-audit" in prompts, prompts
    prompt = await session.get_prompt("site-audit", {"url": site})
    assert site in prompt.messages[0].content.text, prompt

    try:
        await session.call_tool("scrape", {"url": site, "nonsense": 1})
    except McpError as error:
        assert "nonsense" in str(error), error
    else:
        raise AssertionError("an unknown argument is refused by name")
    return {"tools": len(names), "session": crawl, "pages": len(urls), "progress": len(steps)}


async def main() -> None:
    async with streams() as (read, write), ClientSession(read, write) as session:
        print(json.dumps(await talk(session)))


asyncio.run(main())
