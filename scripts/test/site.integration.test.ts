import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { pages } from '../docs-links.mjs'
import { browseSite } from '../site/browse-site.mjs'
import { root } from './docs-blocks.ts'

/** The home page, a page of every kind, and the pages with the longest code and tables. */
const paths = ['/', '/start/', '/start/postgresql', '/guides/dashboard', '/benchmarks', '/defaults', '/errors', '/project/changelog']

describe('the site in a browser', () => {
  beforeAll(() => {
    const built = spawnSync(process.execPath, [join(root, 'scripts/docs.mjs')], { cwd: root, encoding: 'utf8' })
    expect(built.stdout + built.stderr).toContain('The site is in')
  }, 300_000)

  it('fits on a desktop and a phone, in light and dark, without errors, missing pictures or other hosts', async () => {
    const seen: string[] = []
    const problems: string[] = []
    await browseSite(join(root, '.cache/site'), paths, async (visit) => {
      seen.push(visit.path)
      problems.push(...visit.problems.map((problem) => `${visit.path}, ${visit.screen}, ${visit.colorScheme}: ${problem}`))
    })
    expect(problems).toEqual([])
    expect(seen).toHaveLength(paths.length * 4)
  }, 180_000)

  it('has the pages that are looked at', () => {
    const known = pages().map(({ page }) => `/${page.replace(/(?:index)?\.md$/, '')}`)
    expect(paths.filter((path) => path !== '/' && !known.includes(path))).toEqual([])
  })

  it('reports a page that is too wide, code that scrolls sideways, a missing picture and a failing script', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ackord-site-'))
    const body = `<pre style="width:100px;overflow:auto">${'long '.repeat(60)}</pre><img src="/none.svg"><div style="width:3000px">wide</div>`
    writeFileSync(
      join(folder, 'index.html'),
      `<!doctype html><body style="background:#fff">${body}<script>throw new Error('broken')</script></body>`,
    )
    const problems: string[] = []
    try {
      await browseSite(folder, ['/'], async (visit) => {
        if (visit.screen === 'desktop') problems.push(...visit.problems)
      })
    } finally {
      rmSync(folder, { recursive: true })
    }
    expect(problems.join('\n')).toMatch(/A script failed: broken/)
    expect(problems.join('\n')).toMatch(/pixels wide on a screen of 1280/)
    expect(problems.join('\n')).toMatch(/Code scrolls sideways: long long/)
    expect(problems.join('\n')).toMatch(/A picture is missing: \/none\.svg/)
    expect(problems.join('\n')).toMatch(/The background is rgb\(255, 255, 255\) in dark mode/)
  }, 60_000)
})
