// @ts-check
// The API reference: a page for each entry point, generated from the doc comments.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Application } from 'typedoc'
import { load as markdown } from 'typedoc-plugin-markdown'
import { root } from './docs-links.mjs'

/** The source files of the entry points, and their import specifiers. @returns {{ file: string, name: string }[]} */
function entryPoints() {
  return readdirSync(join(root, 'packages')).flatMap((folder) => {
    const { name, exports } = JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8'))
    return Object.entries(exports)
      .filter(([entry, target]) => typeof target === 'object' && entry !== './internal')
      .map(([entry, target]) => ({ file: join(root, 'packages', folder, target['@ackord/source']), name: name + entry.slice(1) }))
  })
}

/**
 * Writes the pages into `folder`, with the compiler's settings beside them, and resolves to their titles and links.
 * @param {string} folder @param {string} cache @returns {Promise<{ text: string, link: string }[]>}
 */
export async function writeReference(folder, cache) {
  const entries = entryPoints()
  const tsconfig = join(cache, 'tsconfig.reference.json')
  const compilerOptions = {
    composite: false,
    noEmit: true,
    isolatedDeclarations: false,
    allowImportingTsExtensions: true,
    rewriteRelativeImportExtensions: false,
    customConditions: ['@ackord/source'],
    typeRoots: [join(root, 'node_modules/@types')],
  }
  const files = entries.map(({ file }) => file)
  writeFileSync(tsconfig, JSON.stringify({ extends: join(root, 'tsconfig.base.json'), files, compilerOptions }))
  const app = await Application.bootstrapWithPlugins({
    entryPoints: files,
    tsconfig,
    // The types do not declare that a plugin may be a function.
    plugin: /** @type {any} */ ([markdown]),
    name: 'API reference',
    readme: 'none',
    logLevel: 'Warn',
    // Type errors are checked in a separate step.
    skipErrorChecking: true,
    disableSources: true,
    disableGit: true,
    excludeExternals: true,
    excludeInternal: true,
    excludePrivate: true,
    validation: {
      notExported: false,
      invalidLink: true,
      invalidPath: true,
      rewrittenLink: false,
      notDocumented: false,
      unusedMergeModuleWith: true,
    },
    ...markdownOptions,
    outputs: [{ name: 'markdown', path: folder }],
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('The doc comments could not be parsed.')
  for (const module of project.children ?? []) {
    // TypeDoc names a module by its folder or file; readers know it by its import specifier.
    const path = join(root, 'packages', module.name)
    const entry = entries.find(({ file }) => file === join(path, 'index.ts') || file === `${path}.ts`)
    if (entry === undefined) throw new Error(`'${module.name}' is not an entry point of a package.`)
    module.name = entry.name
  }
  // Nested entries first: '@ackord/core/middleware' must get its page before the function middleware() of '@ackord/core' takes that name.
  const depthOf = (/** @type {{ name: string }} */ { name }) => name.split('/').length
  for (const list of [project.children, project.childrenIncludingDocuments]) list?.sort((one, other) => depthOf(other) - depthOf(one))
  await app.generateOutputs(project)
  if (app.logger.hasErrors() || app.logger.hasWarnings())
    throw new Error('The doc comments have broken links or other problems; see above.')
  return entries.map(({ name }) => ({ text: name, link: `/api/${name}` }))
}

/** Options of the plugin. */
const markdownOptions = /** @type {any} */ ({
  router: 'module',
  useHTMLAnchors: true,
  entryFileName: 'index',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  classPropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  propertyMembersFormat: 'table',
  tableColumnSettings: { hideSources: true, hideInherited: true, hideOverrides: true, hideModifiers: true },
  sanitizeComments: true,
})
