// Read from .cache/docs, where scripts/docs.mjs gathers all pages.
import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'
import { slugOf } from '../../../scripts/docs-links.mjs'
import { sidebar } from './sidebar.mjs'

const { version, repository } = JSON.parse(readFileSync(new URL('../../../packages/core/package.json', import.meta.url), 'utf8'))
/** The address of the repository, as the packages state it. Links to it are shown only if there is one. */
const repositoryUrl = (typeof repository === 'string' ? repository : repository?.url)?.replace(/^git\+|\.git$/g, '')

const reference = JSON.parse(readFileSync(new URL('./reference.json', import.meta.url), 'utf8'))
const nav = sidebar.map(({ text, items }) => ({ text, link: items[0].link }))

export default defineConfig({
  title: 'Ackord',
  description: 'Inbox, business writes and outbox in one transaction; a relay to the broker.',
  lang: 'en',
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: '/favicon.svg' }],
    ['meta', { name: 'theme-color', content: '#6b3a80' }],
  ],
  lastUpdated: false,
  markdown: { anchor: { slugify: slugOf } },
  // All pages of the reference are large.
  vite: { build: { chunkSizeWarningLimit: 5000 } },
  // The reference has pages of one class, whose signatures wrap.
  transformPageData: ({ relativePath }) => (relativePath.startsWith('api/') ? { frontmatter: { pageClass: 'api' } } : {}),
  themeConfig: {
    version,
    repository: repositoryUrl,
    logo: '/logo.svg',
    nav: [...nav, { text: `v${version}`, link: '/project/changelog' }],
    ...(repositoryUrl === undefined ? {} : { socialLinks: [{ icon: socialIcon(repositoryUrl), link: repositoryUrl }] }),
    sidebar: [
      ...sidebar.map((group) => ({ ...group, collapsed: false })),
      { text: 'API', collapsed: true, items: [{ text: 'All entry points', link: '/api/' }, ...reference] },
    ],
    outline: [2, 3],
    search: { provider: 'local' },
  },
})

/** @param {string} url */
function socialIcon(url) {
  return ['github', 'gitlab', 'codeberg'].find((name) => new URL(url).host.startsWith(name)) ?? 'git'
}
