import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { MemoryOutboxStore } from '@ackord/outbox'
import { recordingLogger } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { WebDashboard } from '../src/dashboard.ts'
import { checkOptions } from '../src/dashboard-options.ts'
import { PageFiles } from '../src/page-files.ts'

/** A dashboard with these files, for users that nobody lets in. */
function openPage(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'ackord-page-'))
  writeFileSync(join(folder, 'secret.txt'), 'outside')
  const page = join(folder, 'page')
  const write = () => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(page, 'assets'), { recursive: true })
      writeFileSync(join(page, name), text)
    }
  }
  const settings = checkOptions({
    stores: { shop: new MemoryOutboxStore() },
    authorize: () => undefined,
    basePath: '/ops/ackord',
    logger: recordingLogger(),
  })
  const dashboard = new WebDashboard(settings, new PageFiles(pathToFileURL(`${page}/`)))
  return {
    write,
    get: (path: string, method = 'GET') => dashboard.fetch(new Request(`http://x${path}`, { method })),
    async [Symbol.asyncDispose]() {
      await dashboard.close()
      rmSync(folder, { recursive: true })
    },
  }
}

const files = {
  'index.html': '<!doctype html>',
  'favicon.svg': '<svg/>',
  'assets/index-Ab_c-123.js': 'export {}',
  'assets/index-Dl_2o2nf.css': 'a {}',
  'assets/notes.md': 'not for browsers',
}

it.each([
  ['', 'text/html; charset=utf-8', 'no-store', '<!doctype html>'],
  ['index.html', 'text/html; charset=utf-8', 'no-store', '<!doctype html>'],
  ['favicon.svg', 'image/svg+xml', 'no-store', '<svg/>'],
  ['assets/index-Ab_c-123.js', 'text/javascript; charset=utf-8', 'public, max-age=31536000, immutable', 'export {}'],
  ['assets/index-Dl_2o2nf.css', 'text/css; charset=utf-8', 'public, max-age=31536000, immutable', 'a {}'],
])('serves "%s" to everybody', async (path, type, caching, text) => {
  await using page = openPage(files)
  page.write()
  const response = await page.get(`/ops/ackord/${path}`)

  expect([response.status, await response.text()]).toEqual([200, text])
  expect(response.headers.get('content-type')).toBe(type)
  expect(response.headers.get('cache-control')).toBe(caching)
  expect(await (await page.get(`/ops/ackord/${path}`, 'HEAD')).text()).toBe('')
})

it.each([
  '../secret.txt',
  '%2e%2e/secret.txt',
  '..%2fsecret.txt',
  'assets',
  'assets/',
  'assets/notes.md',
  '/index.html',
  'api',
  'constructor',
])('does not serve "%s"', async (path) => {
  await using page = openPage(files)
  page.write()
  const response = await page.get(`/ops/ackord/${path}`)
  expect(response.status).toBe(404)
  expect(await response.text()).not.toContain('outside')
})

it('accepts no other method', async () => {
  await using page = openPage(files)
  page.write()
  const response = await page.get('/ops/ackord/', 'POST')
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})

it('redirects to the slash, relative to where the browser is', async () => {
  await using page = openPage(files)
  const response = await page.get('/ops/ackord')
  expect([response.status, response.headers.get('location')]).toEqual([308, './ackord/'])
  expect((await page.get('/ops')).status).toBe(404)
  expect((await page.get('/ops/ackordion/')).status).toBe(404)
})

it('says that the page must be built, and serves it once it is', async () => {
  await using page = openPage(files)
  const response = await page.get('/ops/ackord/')
  expect([response.status, await response.text()]).toEqual([503, expect.stringContaining('build')])
  page.write()
  expect((await page.get('/ops/ackord/')).status).toBe(200)
})
