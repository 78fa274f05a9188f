// @ts-check
// Opens pages of the built site in Chromium, in light and dark, on a desktop and on a phone. scripts/site-screenshots.mjs takes pictures of them; a test looks for what is wrong with them.
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
// The tests of the dashboard need it, too.
const { chromium } = createRequire(join(root, 'packages/dashboard/package.json'))('playwright-core')

/** @type {Readonly<Record<string, string>>} */
const contentTypes = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
  '.json': 'application/json',
}

const screens = /** @type {const} */ ({ desktop: { width: 1280, height: 900 }, phone: { width: 360, height: 740 } })
const colorSchemes = /** @type {const} */ (['light', 'dark'])

/**
 * `path`: of the page, such as `/start/postgresql`. `problems`: what a visitor would notice, as sentences.
 *
 * @typedef {{ path: string, screen: keyof typeof screens, colorScheme: 'light' | 'dark', problems: readonly string[], screenshot: () => Promise<Buffer> }} Visit
 */

/**
 * Visits each page on each screen and in each colour scheme.
 *
 * @param {string} site - the folder of the built site
 * @param {readonly string[]} paths
 * @param {(visit: Visit) => Promise<void>} look
 */
export async function browseSite(site, paths, look) {
  const server = createServer((request, response) => {
    const file = fileOf(site, new URL(request.url ?? '/', 'http://site').pathname)
    if (file === undefined) return void response.writeHead(404).end()
    response.writeHead(200, { 'content-type': contentTypes[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  const origin = `http://127.0.0.1:${port}`
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu'] })
  try {
    for (const [screen, viewport] of /** @type {[keyof typeof screens, { width: number, height: number }][]} */ (Object.entries(screens))) {
      for (const colorScheme of colorSchemes) {
        const context = await browser.newContext({ colorScheme, viewport, reducedMotion: 'reduce' })
        for (const path of paths) await visit(context, { origin, path, screen, colorScheme }, look)
        await context.close()
      }
    }
  } finally {
    await browser.close()
    server.closeAllConnections()
    server.close()
  }
}

/**
 * @param {any} context
 * @param {{ origin: string, path: string, screen: keyof typeof screens, colorScheme: 'light' | 'dark' }} what
 * @param {(visit: Visit) => Promise<void>} look
 */
async function visit(context, { origin, path, screen, colorScheme }, look) {
  const page = await context.newPage()
  /** @type {string[]} */
  const problems = []
  page.on('console', (/** @type {any} */ message) => {
    if (message.type() === 'error') problems.push(`The console shows an error: ${message.text()}`)
  })
  page.on('pageerror', (/** @type {Error} */ error) => problems.push(`A script failed: ${error.message}`))
  page.on('request', (/** @type {any} */ request) => {
    const url = request.url()
    if (!url.startsWith(origin) && !url.startsWith('data:')) problems.push(`The page loads ${url} from another host.`)
  })
  const response = await page.goto(origin + path, { waitUntil: 'networkidle' })
  if (response.status() !== 200) problems.push(`The server answers ${response.status()}.`)
  problems.push(...(await page.evaluate(lookForProblems, { isDesktop: screen === 'desktop', isDark: colorScheme === 'dark' })))
  await look({ path, screen, colorScheme, problems, screenshot: () => page.screenshot({ fullPage: path === '/' }) })
  await page.close()
}

/**
 * Runs in the browser.
 *
 * @param {{ isDesktop: boolean, isDark: boolean }} options
 */
function lookForProblems({ isDesktop, isDark }) {
  const { document, getComputedStyle } = /** @type {any} */ (globalThis)
  const found = []
  const { scrollWidth, clientWidth } = document.documentElement
  if (scrollWidth > clientWidth) found.push(`The page is ${scrollWidth} pixels wide on a screen of ${clientWidth}.`)
  for (const code of isDesktop ? document.querySelectorAll('pre') : []) {
    if (code.offsetParent !== null && code.scrollWidth > code.clientWidth + 1) {
      found.push(`Code scrolls sideways: ${code.textContent.trim().slice(0, 60)}`)
    }
  }
  for (const image of document.images) {
    if (image.complete && image.naturalWidth === 0) found.push(`A picture is missing: ${image.getAttribute('src')}`)
  }
  const [red = 0, green = 0, blue = 0] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)
  if (red + green + blue > 380 === isDark)
    found.push(`The background is rgb(${red}, ${green}, ${blue}) in ${isDark ? 'dark' : 'light'} mode.`)
  return found
}

/** @param {string} site @param {string} pathname @returns {string | undefined} */
function fileOf(site, pathname) {
  const path = join('/', decodeURIComponent(pathname))
  return [path.endsWith('/') ? `${path}index.html` : path, `${path}.html`]
    .map((each) => join(site, each))
    .find((file) => extname(file) !== '' && existsSync(file))
}
