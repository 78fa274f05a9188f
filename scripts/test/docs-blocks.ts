import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root: string = fileURLToPath(new URL('../..', import.meta.url))

/** The documents of `docs/`, as paths relative to the repository. */
export const documents: readonly string[] = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`)
  .sort()

/** The READMEs of the packages, likewise. */
export const packageReadmes: readonly string[] = readdirSync(`${root}packages`)
  .map((folder) => `packages/${folder}/README.md`)
  .sort()

export interface Block {
  readonly document: string
  /** The line where it begins in the document, from 1. */
  readonly line: number
  /** The file name, as in ```` ```ts [service.ts] ````. */
  readonly title: string | undefined
  /** Code hidden from readers: the imports and declarations that a fragment assumes, from the last `<!-- ts … -->` before it. */
  readonly setup: string
  readonly code: string
}

/** The TypeScript blocks of a document, in order. */
export function typescriptBlocks(document: string): Block[] {
  const text = readFileSync(root + document, 'utf8')
  const blocks: Block[] = []
  let setup = ''
  for (const found of text.matchAll(/^<!-- ts\n([\s\S]*?)^-->|^[ ]*```ts(?: \[(.+)\])?\n([\s\S]*?)^[ ]*```$/gm)) {
    const [, hidden, title, code] = found
    if (hidden !== undefined) setup = hidden
    if (code === undefined) continue
    const line = text.slice(0, found.index).split('\n').length
    blocks.push({ document, line, title, setup: title === undefined ? withoutImportsOf(code, setup) : '', code })
  }
  return blocks
}

const imports = /^import (type )?(\w+(?:, )?)?(?:\{([^}]*)\})? ?from ('[^']+')$/gm

/** The setup of a block without what its code imports itself: the first block that uses a name shows where it comes from. */
function withoutImportsOf(code: string, setup: string): string {
  const namesIn = (list = '') =>
    list
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '')
  const nameOf = (text: string) => text.replace(/^type /, '').replace(/^\w+ as /, '')
  const shown = new Set([...code.matchAll(imports)].flatMap(([, , main = '', names]) => [...namesIn(main), ...namesIn(names)].map(nameOf)))
  return setup.replaceAll(imports, (_, type = '', main = '', names, from) => {
    const [ownMain] = namesIn(main).filter((name) => !shown.has(name))
    const own = namesIn(names).filter((name) => !shown.has(nameOf(name)))
    const parts = [...(ownMain === undefined ? [] : [ownMain]), ...(own.length === 0 ? [] : [`{ ${own.join(', ')} }`])]
    return parts.length === 0 ? '' : `import ${type}${parts.join(', ')} from ${from}`
  })
}

/** Blocks of another language in a document, such as `sql`. */
export function blocksIn(document: string, language: string): string[] {
  const text = readFileSync(root + document, 'utf8')
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code)
}
