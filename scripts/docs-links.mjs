// @ts-check
// The links of the documents: their targets in the repository, and the addresses of those on the site.
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path/posix'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** Documents outside of `docs/` that are pages, too. */
const others = new Map([
  ['ARCHITECTURE.md', 'project/architecture.md'],
  ['CHANGELOG.md', 'project/changelog.md'],
  ['CONTRIBUTING.md', 'project/contributing.md'],
  ['examples/README.md', 'examples.md'],
])

/** @typedef {{ file: string, page: string }} Page a document of the repository, and its path on the site */

/** All documents of the site. @returns {Page[]} */
export function pages() {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('.'))
    .map((name) => ({ file: `docs/${name}`, page: name }))
  const readmes = readdirSync(join(root, 'packages'))
    .filter((name) => existsSync(join(root, 'packages', name, 'README.md')))
    .map((name) => ({ file: `packages/${name}/README.md`, page: `packages/${name}.md` }))
  return [...docs, ...readmes, ...[...others].map(([file, page]) => ({ file, page }))]
}

/**
 * The page of a path in the repository; `undefined` if it has none.
 * @param {string} path @returns {string | undefined}
 */
export function pageOf(path) {
  if (path === 'README.md') return 'index.md'
  const readme = /^packages\/([\w-]+)(?:\/README\.md)?\/?$/.exec(path)
  if (readme !== null) return `packages/${readme[1]}.md`
  if (path.startsWith('docs/') && path.endsWith('.md')) return path.slice('docs/'.length)
  return others.get(path)
}

/** The address on the site of a file in docs/public; `undefined` for other files. @param {string} path @returns {string | undefined} */
export function assetOf(path) {
  return path.startsWith('docs/public/') ? path.slice('docs/public'.length) : undefined
}

/**
 * Calls `replace` for every link outside of code and inserts the returned address. If it returns none, only the link's text is kept.
 * @param {string} markdown @param {(href: string) => string | undefined} replace @returns {string}
 */
export function replaceLinks(markdown, replace) {
  // Matches whichever comes first: a code block, a comment, a link, inline code.
  const parts = /^ *```[\s\S]*?^ *```|^<!--[\s\S]*?-->|\[((?:`[^`\n]*`|[^[\]])*)\]\(([^)\s]+)\)|`[^`\n]+`/gm
  return markdown.replaceAll(parts, (whole, text, href) => {
    if (href === undefined) return whole
    const address = replace(href)
    return address === undefined ? text : `[${text}](${address})`
  })
}

/**
 * Resolves a relative link to a path in the repository and an anchor; `undefined` for links that lead outside of it.
 * @param {string} file @param {string} href @returns {{ path: string, anchor: string | undefined } | undefined}
 */
export function targetOf(file, href) {
  if (/^[a-z]+:/.test(href)) return undefined
  const [path = '', anchor] = href.split('#')
  return { path: path === '' ? file : normalize(join(dirname(file), path)), anchor }
}

/** The anchor of a heading by GitHub's rules, so that a link works in the repository and on the site. @param {string} heading */
export function slugOf(heading) {
  const text = heading.replaceAll(/`|\*\*|\[([^\]]*)\]\([^)]*\)/g, '$1')
  return text
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{Letter}\p{Number}\p{Mark} _-]/gu, '')
    .replaceAll(' ', '-')
}

/** The anchors of a document, in the order of its headings. @param {string} markdown @returns {string[]} */
export function anchorsOf(markdown) {
  /** @type {Map<string, number>} */
  const seen = new Map()
  const text = markdown.replaceAll(/^```[\s\S]*?^```/gm, '')
  return [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => {
    const slug = slugOf(heading)
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  })
}
