// @ts-check
// Takes the pictures of the dashboard that the documents show, in light and dark, into docs/public/dashboard. The packages must be compiled.
//
//     node scripts/dashboard-screenshots.mjs [--png FOLDER]
//
// --png: also as PNG, to look at, with the overview on a phone, into a folder of yours. The data is invented, and the clock is virtual, so that half an hour passes at once.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { openShop } from './site/dashboard-shop.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
// The tests of the dashboard need it, too.
const { chromium } = createRequire(join(root, 'packages/dashboard/package.json'))('playwright-core')
const { png } = parseArgs({ options: { png: { type: 'string' } } }).values
/** Bytes of a picture in the documents. */
const limit = 150_000
/** Pixels of the page, unless the shot has others; the rest of a longer one is cut off. */
const maxHeight = 1500
// A short page is shown without the empty space below it.
const desktop = { width: 1280, height: 480 }
const phone = { width: 360, height: 740 }

/** `wait`: a text that the page has when it is complete. `height`: at most so many pixels. @typedef {{ name: string, hash: string, wait: string, height?: number }} Shot */

const built = spawnSync(process.execPath, [join(root, 'scripts/dashboard-page.mjs')], { cwd: root, stdio: 'inherit' })
if (built.status !== 0) process.exit(1)
const shop = await openShop()
/** @type {readonly Shot[]} */
const shots = [
  { name: 'overview', hash: '#/', wait: 'Consumers' },
  { name: 'records', hash: '#/stores/orders/records?state=parked', wait: 'ECONNREFUSED', height: 900 },
  { name: 'record', hash: `#/stores/orders/records/${shop.parkedId}`, wait: 'Behind it' },
  { name: 'inbox', hash: `#/inbox?id=${shop.handledId}`, wait: 'handled' },
  { name: 'dead-letters', hash: '#/dead-letters', wait: 'Came from' },
  { name: 'dead-letter', hash: `#/dead-letters/orders.dead/${shop.letterId}`, wait: 'Came from' },
  { name: 'audit', hash: '#/audit', wait: 'maintenance' },
  { name: 'doctor', hash: '#/doctor', wait: 'Run the checks' },
]
const server = createServer((request, response) => shop.dashboard.node(request, response)).listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu'] })
try {
  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    for (const shot of shots) await take(shot, colorScheme, desktop)
    if (png !== undefined) await take({ name: 'overview-phone', hash: '#/', wait: 'Consumers' }, colorScheme, phone)
  }
} finally {
  await browser.close()
  await shop.dashboard.close()
  server.closeAllConnections()
  server.close()
}

/** @param {Shot} shot @param {'light' | 'dark'} colorScheme @param {{ width: number, height: number }} viewport */
async function take({ name, hash, wait, height: most = maxHeight }, colorScheme, viewport) {
  const context = await browser.newContext({ colorScheme, viewport, timezoneId: 'UTC', reducedMotion: 'reduce' })
  const page = await context.newPage()
  await page.clock.setFixedTime(shop.now)
  await page.goto(`http://127.0.0.1:${port}/${hash}`)
  await page.getByText(wait).first().waitFor()
  if (name === 'doctor') {
    await page.getByRole('button', { name: 'Run the checks' }).click()
    await page.getByRole('table').waitFor()
  }
  await page.getByText('Loading…').first().waitFor({ state: 'detached' })
  // Only the protocol of Chromium has WebP, which is a third of the size of PNG.
  const session = await context.newCDPSession(page)
  const height = Number(await page.evaluate('document.documentElement.scrollHeight'))
  const clip = { x: 0, y: 0, width: viewport.width, height: Math.min(most, Math.max(viewport.height, height)), scale: 1.5 }
  /** @param {'webp' | 'png'} format */
  const capture = async (format) => {
    const quality = format === 'webp' ? { quality: 75 } : {}
    const { data } = await session.send('Page.captureScreenshot', { format, ...quality, captureBeyondViewport: true, clip })
    return Buffer.from(data, 'base64')
  }
  if (viewport === desktop) {
    const picture = await capture('webp')
    if (picture.byteLength > limit) throw new Error(`The picture of ${name} has ${picture.byteLength} bytes, more than ${limit}.`)
    write(join(root, 'docs/public/dashboard'), `${name}-${colorScheme}.webp`, picture)
  }
  if (png !== undefined) write(png, `${name}-${colorScheme}.png`, await capture('png'))
  await context.close()
}

/** @param {string} folder @param {string} file @param {Buffer} picture */
function write(folder, file, picture) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, file), picture)
  console.log(`${join(folder, file)}: ${picture.byteLength} bytes`)
}
