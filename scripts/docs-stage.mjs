// @ts-check
// Copies all pages of the site into one folder: those of docs/, the READMEs of the packages and the documents beside them, with adjusted links.
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path/posix'
import { assetOf, pageOf, pages, replaceLinks, root, targetOf } from './docs-links.mjs'

/**
 * Returns the problems: links to missing targets.
 * @param {string} folder @returns {string[]}
 */
export function stage(folder) {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  cpSync(join(root, 'docs/.vitepress'), join(folder, '.vitepress'), { recursive: true })
  cpSync(join(root, 'docs/public'), join(folder, 'public'), { recursive: true })
  /** @type {string[]} */
  const problems = []
  for (const { file, page } of pages()) {
    const text = replaceLinks(readFileSync(join(root, file), 'utf8'), (href) => {
      const target = targetOf(file, href)
      if (target === undefined || href.startsWith('#')) return href
      const there = pageOf(target.path)
      if (there === undefined) {
        if (!existsSync(join(root, target.path))) problems.push(`${file}: the link ${href} leads to nothing.`)
        // For a file of the repository that is not part of the site, the text stays, without a link.
        return assetOf(target.path)
      }
      const path = relative(dirname(page), there)
      return `${path.startsWith('.') ? path : `./${path}`}${target.anchor === undefined ? '' : `#${target.anchor}`}`
    })
    const place = join(folder, page)
    mkdirSync(dirname(place), { recursive: true })
    writeFileSync(place, text)
  }
  return problems
}
