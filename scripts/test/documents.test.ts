import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

function filesIn(folder: string, ...endings: readonly string[]): string[] {
  const names = readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => endings.some((ending) => name.endsWith(ending))).map((name) => `${folder}${name}`)
}

const packages = readdirSync(`${root}packages`)
const documents = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...filesIn('docs/', '.md'),
  ...packages.flatMap((name) => [`packages/${name}/README.md`, `packages/${name}/package.json`]),
]
/** Doc comments and error texts are checked, too. */
const sources = packages.flatMap((name) => filesIn(`packages/${name}/src/`, '.ts'))

/** Sentences that promise the impossible: a crash between publish and settle causes a duplicate. */
function falsePromises(text: string): string[] {
  const sentences = text.replaceAll(/\s+/g, ' ').split(/(?<=[.!?:;|])\s/)
  return sentences.filter(
    (sentence) =>
      /exactly[- ]once[- ](?:\w+ )?(?:deliver|publish)|(?:deliver|publish)\w* (?:\w+ )?exactly[- ]once/i.test(sentence) &&
      !/\b(?:no|not|never|cannot|nobody|neither|without)\b/i.test(sentence),
  )
}

describe('the documents', () => {
  it('promise no more than at-least-once delivery', () => {
    // Tests the check itself first: sentences that it must find, and sentences that it must allow.
    expect(falsePromises('We have exactly-once delivery. Events are delivered exactly once.')).toHaveLength(2)
    expect(falsePromises('Exactly-once\nmessage delivery for all')).toHaveLength(1)
    expect(falsePromises('Never write "exactly-once delivery". Exactly-once effects. There is no exactly once delivery.')).toEqual([])

    expect(documents.length).toBeGreaterThan(10)
    const found = [...documents, ...sources].flatMap((file) =>
      falsePromises(readFileSync(root + file, 'utf8')).map((sentence) => `${file}: ${sentence}`),
    )
    expect(found).toEqual([])
    expect(readFileSync(`${root}README.md`, 'utf8')).toContain('At-least-once delivery')
  })

  it('say that external calls are not covered', () => {
    for (const file of ['README.md', 'packages/sql/README.md']) {
      expect(readFileSync(root + file, 'utf8').replaceAll(/[>\s]+/g, ' ')).toMatch(
        /(?:External calls made by a handler|Effects outside of the database) are not covered/,
      )
    }
  })

  it('list the names that were renamed before the first release, with the entry points that have them now', () => {
    const section = readFileSync(`${root}CHANGELOG.md`, 'utf8').split('### Renamed before the first release\n')[1] ?? ''
    const rows = section.split('\n').filter((line) => line.startsWith('| `@ackord/'))
    expect(rows.length, 'rows of "Renamed before the first release" in CHANGELOG.md').toBeGreaterThan(10)

    const moved = rows.flatMap((row) => {
      const [, old = '', now = ''] = row.split('|')
      const entry = /^ `@ackord\/(\w+)(\/[\w-]+)`/.exec(now)
      if (entry === null) return []
      const names = [...old.matchAll(/`([A-Za-z]\w*)`/g)].map(([, name = '']) => name)
      return names.map((name) => ({ name, package: entry[1], path: `.${entry[2]}` }))
    })
    expect(moved.length).toBeGreaterThan(20)
    for (const { name, package: folder, path } of moved) {
      const { exports } = JSON.parse(readFileSync(`${root}packages/${folder}/package.json`, 'utf8'))
      const source = readFileSync(`${root}packages/${folder}/${exports[path]['@ackord/source']}`, 'utf8')
      expect(source, `${name} in @ackord/${folder}${path.slice(1)}`).toMatch(new RegExp(`\\b${name}\\b`))
    }
  })
})
