// @ts-check
// Takes pictures of the home page and some others of the built site (`make docs`), in light and dark, on a desktop and on a phone, to look at:
//
//     node scripts/site-screenshots.mjs FOLDER [PATH …]
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { browseSite } from './site/browse-site.mjs'

const [folder, ...paths] = process.argv.slice(2)
if (folder === undefined) {
  console.error('Name the folder for the pictures: node scripts/site-screenshots.mjs FOLDER [PATH …]')
  process.exit(2)
}
mkdirSync(folder, { recursive: true })
const site = fileURLToPath(new URL('../.cache/site', import.meta.url))
await browseSite(site, paths.length > 0 ? paths : ['/', '/start/postgresql', '/guides/dashboard', '/benchmarks'], async (visit) => {
  const name = visit.path === '/' ? 'home' : visit.path.slice(1).replaceAll('/', '-')
  const file = join(folder, `${name}-${visit.screen}-${visit.colorScheme}.png`)
  writeFileSync(file, await visit.screenshot())
  console.log([file, ...visit.problems].join('\n  '))
  if (visit.problems.length > 0) process.exitCode = 1
})
