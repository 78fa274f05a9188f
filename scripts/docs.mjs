// @ts-check
// Builds the documentation site into .cache/site, and fails for broken links and for pages that no link or menu leads to.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'vitepress'
import { sidebar } from '../docs/.vitepress/sidebar.mjs'
import { pages, root } from './docs-links.mjs'
import { writeReference } from './docs-reference.mjs'
import { stage } from './docs-stage.mjs'

const startedAt = Date.now()
const cache = join(root, '.cache')
const folder = join(cache, 'docs')
const site = join(cache, 'site')

const problems = [...stage(folder), ...notInSidebar()]
const reference = await writeReference(join(folder, 'api'), folder)
writeFileSync(join(folder, '.vitepress/reference.json'), JSON.stringify(reference))
await build(folder, { outDir: site })
problems.push(...deadLinks(site))
for (const problem of problems) console.error(problem)
console.log(
  problems.length === 0 ? `The site is in ${site}, after ${Math.round((Date.now() - startedAt) / 1000)} s.` : 'The site is not right.',
)
process.exit(problems.length === 0 ? 0 : 1)

/** @returns {string[]} */
function notInSidebar() {
  const links = new Set(sidebar.flatMap(({ items }) => items.map(({ link }) => link)))
  const files = new Set(pages().map(({ page }) => `/${page.replace(/(?:index)?\.md$/, '')}`))
  const missing = [...files].filter((page) => page !== '/' && !links.has(page))
  const unknown = [...links].filter((link) => !files.has(link))
  return [
    ...missing.map((page) => `${page} is not in docs/.vitepress/sidebar.mjs.`),
    ...unknown.map((link) => `docs/.vitepress/sidebar.mjs has ${link}, which is no page.`),
  ]
}

/** VitePress checks the pages of links; this checks their anchors too, in the built files. @param {string} built @returns {string[]} */
function deadLinks(built) {
  const files = readdirSync(built, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html') && name !== '404.html')
  const html = new Map(files.map((name) => [`/${name}`, readFileSync(join(built, name), 'utf8')]))
  const ids = new Map([...html].map(([page, text]) => [page, new Set([...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))]))
  return [...html].flatMap(([page, text]) => {
    const links = new Set([...text.matchAll(/<a [^>]*?href="([^"]+)"/g)].map(([, href = '']) => href))
    return [...links].flatMap((href) => {
      const url = new URL(href.replaceAll('&amp;', '&'), `http://site${page}`)
      if (url.host !== 'site') return []
      const path = decodeURIComponent(url.pathname)
      const file = path.endsWith('/') ? `${path}index.html` : path.endsWith('.html') ? path : `${path}.html`
      const known = ids.get(file)
      if (known === undefined) return [`${page}: the link ${href} leads to no page.`]
      const anchor = decodeURIComponent(url.hash.slice(1))
      return anchor === '' || known.has(anchor) ? [] : [`${page}: the link ${href} leads to a page that has no such heading.`]
    })
  })
}
