// Read from .cache/docs, where scripts/docs.mjs gathers all pages.
import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'
import { slugOf } from '../../../scripts/docs-links.mjs'
import { sidebar } from './sidebar.mjs'

const reference = JSON.parse(readFileSync(new URL('./reference.json', import.meta.url), 'utf8'))
const nav = sidebar.map(({ text, items }) => ({ text, link: items[0].link }))

export default defineConfig({
  title: 'Ackord',
  description: 'Inbox, business writes and outbox in one transaction; a relay to the broker.',
  lang: 'en',
  lastUpdated: false,
  markdown: { anchor: { slugify: slugOf } },
  // All pages of the reference are large.
  vite: { build: { chunkSizeWarningLimit: 5000 } },
  themeConfig: {
    nav,
    sidebar: [
      ...sidebar.map((group) => ({ ...group, collapsed: false })),
      { text: 'API', collapsed: true, items: [{ text: 'All entry points', link: '/api/' }, ...reference] },
    ],
    outline: [2, 3],
    search: { provider: 'local' },
  },
})
