import { readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { generateProject } from '../../src/project/generate-project.ts'
import { allProjects, type GeneratedProject } from '../support/all-projects.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))

interface PackageJson {
  readonly name: string
  readonly version: string
  readonly dependencies?: Record<string, string>
  readonly devDependencies?: Record<string, string>
}

function packageJson({ files }: Pick<GeneratedProject, 'files'>): Required<PackageJson> {
  return JSON.parse(files.get('package.json') ?? '')
}

/** The imported modules of a project: packages by name, files by path. */
function importsOf({ files }: GeneratedProject): { readonly file: string; readonly module: string }[] {
  return [...files].flatMap(([file, text]) => {
    if (!file.endsWith('.ts')) return []
    return ts.preProcessFile(text).importedFiles.map(({ fileName }) => {
      const packageName = /^(?:@[^/]+\/)?[^/]+/.exec(fileName)?.[0] ?? ''
      return { file, module: fileName.startsWith('.') ? posix.join(posix.dirname(file), fileName) : packageName }
    })
  })
}

/** The versions that the packages of the workspace ask for, by name. */
function workspaceVersions(): Map<string, Set<string>> {
  const folders = ['.', ...['packages', 'examples'].flatMap((name) => readdirSync(join(root, name)).map((folder) => join(name, folder)))]
  const versions = new Map<string, Set<string>>()
  for (const folder of folders) {
    let content: PackageJson
    try {
      content = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
    } catch {
      continue
    }
    const own = content.name?.startsWith('@ackord/') ? { [content.name]: `^${content.version}` } : {}
    for (const [name, version] of Object.entries({ ...own, ...content.dependencies, ...content.devDependencies })) {
      versions.set(name, (versions.get(name) ?? new Set()).add(version))
    }
  }
  return versions
}

describe('generated projects', () => {
  it('exist for every store, client, broker and framework', () => {
    expect(allProjects).toHaveLength((3 + 3 + 1 + 2) * 5 * 4)
    expect(new Set(allProjects.map(({ title }) => title)).size).toBe(allProjects.length)
  })

  it('import only files that are generated, and packages that package.json has', () => {
    const wrong = allProjects.flatMap((project) => {
      const { dependencies, devDependencies } = packageJson(project)
      return importsOf(project)
        .filter(({ file, module }) => {
          const known = file.startsWith('test/') ? { ...dependencies, ...devDependencies } : dependencies
          return !(isBuiltin(module) || project.files.has(module) || module in known)
        })
        .map(({ file, module }) => `${project.title}: ${file} imports ${module}`)
    })
    expect(wrong).toEqual([])
  })

  it('have no dependency that they do not use', () => {
    const unused = allProjects.flatMap((project) => {
      // rxjs is a peer of Nest, which not every package manager installs.
      const imported = new Set(['rxjs', ...importsOf(project).map(({ module }) => module)])
      return Object.keys(packageJson(project).dependencies)
        .filter((name) => !imported.has(name))
        .map((name) => `${project.title}: ${name}`)
    })
    expect(unused).toEqual([])
  })

  it('ask for the versions that Ackord is tested with', () => {
    const known = workspaceVersions()
    // Not a dependency of the workspace: `make test-packages` installs it.
    known.set('tsx', new Set(['^4.23.0']))
    // The workspace pins its tools.
    known.set('typescript', new Set(['~6.0.3'])).set('vitest', new Set(['^4.1.12']))
    const wrong = new Set(
      allProjects.flatMap((project) => {
        const { dependencies, devDependencies } = packageJson(project)
        return Object.entries({ ...dependencies, ...devDependencies })
          .filter(([name, version]) => !known.get(name)?.has(version))
          .map(([name, version]) => `${name} ${version}`)
      }),
    )
    expect([...wrong]).toEqual([])
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    expect(devDependencies).toMatchObject({ typescript: '6.0.3', vitest: '4.1.12' })
  })

  it('name their resources by the name of the project', () => {
    const choices = { store: 'redis', client: 'redis', broker: 'redis-streams', framework: 'none' } as const
    const settings = generateProject('@acme/Shop'.toLowerCase(), choices).get('src/settings.ts')
    expect(settings).toContain("export const ordersStream = 'shop-orders'")
    expect(settings).toContain("export const tag = 'shop'")
  })

  it('have exactly the servers that they need in compose.yaml', () => {
    const servers = (title: string) => {
      const compose = allProjects.find((project) => project.title === title)?.files.get('compose.yaml')
      return compose === undefined ? [] : [...compose.matchAll(/^ {2}([\w-]+):$/gm)].map(([, name]) => name)
    }
    expect(servers('postgres-pg-rabbitmq-none')).toEqual(['postgres', 'rabbitmq'])
    expect(servers('mysql-kysely-redis-streams-hono')).toEqual(['mariadb', 'redis'])
    expect(servers('redis-ioredis-redis-streams-none')).toEqual(['redis'])
    expect(servers('sqlite-sqlite-http-fastify')).toEqual([])
  })

  it('document every variable of the environment that they read', () => {
    for (const { files } of allProjects) {
      const read = [...(files.get('src/settings.ts') ?? '').matchAll(/process\.env\.(\w+)/g)].map(([, name]) => name)
      const documented = [...(files.get('README.md') ?? '').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name)
      expect(documented).toEqual(read)
    }
  })

  it('document every file of their sources', () => {
    for (const { files } of allProjects) {
      const readme = files.get('README.md') ?? ''
      const sources = [...files.keys()].filter((path) => path.endsWith('.ts') && !['src/settings.ts', 'src/send.ts'].includes(path))
      expect(sources.filter((path) => !readme.includes(`\`${path}\``))).toEqual([])
    }
  })

  it('are refused with a name or a client that does not work', () => {
    const choices = { store: 'postgres', client: 'pg', broker: 'nats', framework: 'none' } as const
    expect(() => generateProject('My Shop', choices)).toThrow("'My Shop' is not a valid name")
    expect(() => generateProject('shop', { ...choices, store: 'redis' })).toThrow(
      '--client pg does not work with --store redis. Use redis or ioredis.',
    )
  })
})
