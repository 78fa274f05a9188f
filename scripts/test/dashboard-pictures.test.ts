import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path/posix'
import { expect, it } from 'vitest'
import { root } from './docs-blocks.ts'

const folder = 'docs/public/dashboard'
const documents = ['README.md', 'docs/index.md', 'docs/guides/dashboard.md']

/** The pictures of the dashboard that a document shows, as paths in the repository: pairs of light and dark. */
function shownBy(file: string): readonly { readonly light: string; readonly dark: string; readonly text: string }[] {
  const pictures =
    /<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">\s*<\/picture>/g
  const found = [...readFileSync(join(root, file), 'utf8').matchAll(pictures)]
  return found.map(([, dark = '', text = '', light = '']) => ({ light: join(dirname(file), light), dark: join(dirname(file), dark), text }))
}

it.each(documents)('%s shows the dashboard in light and dark, and says in words what is to be seen', (file) => {
  const pictures = shownBy(file)
  expect(pictures.length).toBeGreaterThan(0)
  for (const { light, dark, text } of pictures) {
    expect(light).toMatch(/-light\.webp$/)
    expect(dark).toBe(light.replace('-light', '-dark'))
    expect(text.length).toBeGreaterThan(60)
  }
})

it('the pictures that are shown exist, and no others (node scripts/dashboard-screenshots.mjs)', () => {
  const shown = new Set(documents.flatMap(shownBy).flatMap(({ light, dark }) => [light, dark]))
  expect(readdirSync(join(root, folder)).map((name) => `${folder}/${name}`)).toEqual([...shown].sort())
  for (const path of shown) {
    const picture = readFileSync(join(root, path))
    expect([picture.toString('latin1', 0, 4), picture.toString('latin1', 8, 12)]).toEqual(['RIFF', 'WEBP'])
    expect(picture.byteLength).toBeLessThanOrEqual(150_000)
  }
})
