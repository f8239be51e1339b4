// The official TypeScript client against crawlforge: handshake, tools, a scrape, a crawl, resources.
// usage: node client.mjs SITE_URL PAGES http ENDPOINT | SITE_URL PAGES stdio COMMAND ARG...
import { strict as assert } from 'node:assert';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [site, pages, kind, ...target] = process.argv.slice(2);
const transport = kind === 'http'
  ? new StreamableHTTPClientTransport(new URL(target[0]))
  : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'inherit' });

const client = new Client({ name: 'typescript-client', version: '1.0.0' });
await client.connect(transport);
assert.ok(client.getServerVersion().name, 'the server has a name');

const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name);
for (const name of ['scrape', 'crawl', 'map', 'crawl_status', 'get_version']) {
  assert.ok(names.includes(name), `${name} is listed among ${names}`);
}

const scraped = await client.callTool({ name: 'scrape', arguments: { url: site } });
assert.ok(!scraped.isError, JSON.stringify(scraped));
assert.match(scraped.content[0].text, /no other page says so/);

const progress = [];
const crawled = await client.callTool(
  { name: 'crawl', arguments: { url: site, max_pages: 100, max_depth: 10 } },
  undefined,
  { timeout: 100_000, onprogress: (step) => progress.push(step.progress) },
);
assert.ok(!crawled.isError, JSON.stringify(crawled));
const session = crawled._meta.session_id;
assert.match(session, /^ses_/);

const uris = [];
let cursor;
do {
  const page = await client.listResources(cursor ? { cursor } : {});
  uris.push(...page.resources.map((resource) => resource.uri));
  cursor = page.nextCursor;
} while (cursor);
const sitemapUri = `crawlforge://crawl/${session}/sitemap`;
assert.ok(uris.includes(sitemapUri), `${sitemapUri} is listed among ${uris}`);

const { contents } = await client.readResource({ uri: sitemapUri });
const urls = [];
JSON.parse(contents[0].text, (key, value) => {
  if (key === 'url' && typeof value === 'string') urls.push(value);
  return value;
});
assert.equal(new Set(urls).size, Number(pages), `the sitemap holds every page once: ${urls}`);
assert.equal(urls.length, Number(pages));

assert.ok(progress.length > 0, 'progress was told');
assert.ok(progress.every((done, at) => at === 0 || done > progress[at - 1]), `it rises: ${progress}`);

// What was wanted of a page: values by selector, links, a download.
const structured = await client.callTool({
  name: 'scrape_structured', arguments: { url: site, selectors: { title: 'title', links: 'a@href' } },
});
assert.equal(structured.structuredContent.data.title.length, 1, JSON.stringify(structured));
assert.ok(structured.structuredContent.data.links.every((link) => link.startsWith('http')));
const bad = client.callTool({ name: 'scrape_structured', arguments: { url: site, selectors: { x: 'li[' } } });
await assert.rejects(bad, /selectors\.x/, 'a selector that cannot be read is named');
const links = await client.callTool({ name: 'extract_links', arguments: { url: site } });
assert.ok(links.structuredContent.total_count > 0, JSON.stringify(links));
const download = await client.callTool({ name: 'download', arguments: { url: site } });
assert.match(download.structuredContent.content_hash, /^[0-9a-f]{64}$/);
const llms = await client.callTool({ name: 'generate_llms_txt', arguments: { session_id: session } });
assert.match(llms.structuredContent.llms_txt, /^# /);

// Taking a call back cancels what it started.
const controller = new AbortController();
await assert.rejects(client.callTool(
  { name: 'crawl', arguments: { url: site, max_pages: 100, max_depth: 10 } },
  undefined,
  { timeout: 100_000, signal: controller.signal, onprogress: () => controller.abort() },
));
let newest;
for (let tries = 0; tries < 100 && newest?.state !== 'cancelled'; tries += 1) {
  const listed = await client.callTool({ name: 'crawl_control', arguments: { action: 'list' } });
  newest = listed.structuredContent.sessions.find((one) => one.kind === 'crawl');
}
assert.equal(newest.state, 'cancelled', JSON.stringify(newest));

const { prompts } = await client.listPrompts();
assert.equal(prompts.length, 6);
const prompt = await client.getPrompt({
  name: 'competitive-analysis', arguments: { competitors: 'https://stripe.com, https://paddle.com' },
});
assert.match(prompt.messages[0].content.text, /stripe\.com.*paddle\.com/);
const { completion } = await client.complete({
  ref: { type: 'ref/resource', uri: 'crawlforge://crawl/{sessionId}/sitemap' },
  argument: { name: 'sessionId', value: 'ses_' },
});
assert.ok(completion.values.includes(session), `${session} among ${completion.values}`);

await assert.rejects(
  client.callTool({ name: 'scrape', arguments: { url: site, nonsense: 1 } }),
  /nonsense/,
  'an unknown argument is refused by name',
);
await client.close();
console.log(JSON.stringify({ tools: names.length, session, pages: urls.length, progress: progress.length }));
process.exit(0);
