// @ts-check
// docs/defaults.md is generated from the doc comments of all options: `node scripts/docs-defaults.mjs` writes it, and a test compares it with the sources.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { root } from './docs-links.mjs'

/**
 * @typedef {object} Option
 * @property {string} entry the import specifier: `@ackord/sql`
 * @property {string} options the interface: `InboxOptions`
 * @property {string} name
 * @property {string | undefined} says the text of the doc comment after `Default:`
 * @property {boolean} required
 * @property {unknown} value the default in the code, if it can be evaluated; `undefined` otherwise
 */

const page = join(root, 'docs/defaults.md')

/** The options of all options interfaces that the packages export. @returns {Option[]} */
export function collectOptions() {
  const entries = readdirSync(join(root, 'packages')).flatMap((folder) => {
    const { name, exports } = JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8'))
    return Object.entries(exports)
      .filter(([entry, target]) => typeof target === 'object' && entry !== './internal' && name !== '@ackord/testkit')
      .map(([entry, target]) => ({ entry: name + entry.slice(1), file: join(root, 'packages', folder, target['@ackord/source']) }))
  })
  const { config } = ts.readConfigFile(join(root, 'tsconfig.base.json'), ts.sys.readFile)
  const { options } = ts.convertCompilerOptionsFromJson(
    { ...config.compilerOptions, composite: false, noEmit: true, customConditions: ['@ackord/source'], allowImportingTsExtensions: true },
    root,
  )
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    options,
  )
  const checker = program.getTypeChecker()
  const values = defaultsInCode(program, checker)
  const seen = new Set()

  return entries.flatMap(({ entry, file }) => {
    const source = program.getSourceFile(file)
    const module = source && checker.getSymbolAtLocation(source)
    if (module === undefined) throw new Error(`${file} exports nothing.`)
    return checker.getExportsOfModule(module).flatMap((exported) => {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      const declaration = symbol.declarations?.find(ts.isInterfaceDeclaration)
      if (declaration === undefined || !/(?:Options|Config)$/.test(symbol.name) || seen.has(symbol)) return []
      seen.add(symbol)
      return membersOf(declaration, checker).map((member) => ({
        entry,
        options: symbol.name,
        name: member.name.getText(),
        says: saidDefault(member, checker),
        required: member.questionToken === undefined,
        value: values.get(member),
      }))
    })
  })
}

/**
 * The options of an interface: its own, and those inherited from another package. Interfaces of the same package have their own tables.
 *
 * @param {ts.InterfaceDeclaration} declaration
 * @param {ts.TypeChecker} checker
 */
function membersOf(declaration, checker) {
  const packageOf = (/** @type {ts.Node} */ node) => node.getSourceFile().fileName.replace(/\/src\/.*/, '')
  return checker
    .getTypeAtLocation(declaration)
    .getProperties()
    .flatMap(({ declarations = [] }) => declarations)
    .filter(ts.isPropertySignature)
    .filter((member) => member.parent === declaration || packageOf(member) !== packageOf(declaration))
}

/** @param {ts.PropertySignature} member @param {ts.TypeChecker} checker @returns {string | undefined} */
function saidDefault(member, checker) {
  const text = ts.displayPartsToString(checker.getSymbolAtLocation(member.name)?.getDocumentationComment(checker))
  return /Default(?:, and .*?)?: ([\s\S]+)$/.exec(text)?.[1]?.replaceAll(/\s+/g, ' ')
}

/**
 * The default values in the code: the initializers where options are destructured, `const { lease = 30_000 } = options`.
 * @param {ts.Program} program @param {ts.TypeChecker} checker @returns {Map<ts.Node, unknown>} by the option's declaration
 */
function defaultsInCode(program, checker) {
  /** @type {Map<ts.Node, unknown>} */
  const values = new Map()
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isObjectBindingPattern(node)) {
      const { parent } = node
      // The type of the destructured object, not of the resulting variables.
      const from = (ts.isVariableDeclaration(parent) ? parent.initializer : ts.isParameter(parent) ? parent.type : undefined) ?? parent
      const type = checker.getTypeAtLocation(from)
      for (const { initializer, name, propertyName, dotDotDotToken } of node.elements) {
        if (initializer === undefined || dotDotDotToken !== undefined) continue
        const symbol = type.getProperty((propertyName ?? name).getText())
        const value = evaluate(initializer, checker)
        if (value !== undefined) for (const declaration of symbol?.declarations ?? []) values.set(declaration, value)
      }
    }
    ts.forEachChild(node, visit)
  }
  for (const file of program.getSourceFiles()) if (file.fileName.startsWith(join(root, 'packages'))) visit(file)
  return values
}

/** Evaluates literals, constants, and products of them. @param {ts.Expression} expression @param {ts.TypeChecker} checker @returns {unknown} */
function evaluate(expression, checker) {
  if (ts.isNumericLiteral(expression)) return Number(expression.text.replaceAll('_', ''))
  if (ts.isBinaryExpression(expression) && expression.operatorToken.kind === ts.SyntaxKind.AsteriskToken) {
    const [left, right] = [evaluate(expression.left, checker), evaluate(expression.right, checker)]
    return typeof left === 'number' && typeof right === 'number' ? left * right : undefined
  }
  if (ts.isIdentifier(expression) && expression.text === 'Infinity') return Infinity
  const type = checker.getTypeAtLocation(expression)
  if (type.isNumberLiteral() || type.isStringLiteral()) return type.value
  const kind = expression.kind
  if (kind === ts.SyntaxKind.TrueKeyword || kind === ts.SyntaxKind.FalseKeyword) return kind === ts.SyntaxKind.TrueKeyword
  if (!ts.isIdentifier(expression)) return undefined
  const declaration = checker.getSymbolAtLocation(expression)?.declarations?.find(ts.isVariableDeclaration)
  return declaration?.initializer === undefined ? undefined : evaluate(declaration.initializer, checker)
}

/** @param {Option[]} options @returns {string} */
export function renderDefaults(options) {
  const groups = new Map(options.map((option) => [`${option.entry} ${option.options}`, option]))
  const entries = new Set(options.map(({ entry }) => entry))
  const sections = [...entries].map((entry) => {
    const tables = [...groups.values()].filter((group) => group.entry === entry).map((group) => table(group, options))
    return [`## ${entry}`, ...tables.filter((text) => text !== '')].join('\n\n')
  })
  return `${[head, ...sections.filter((text) => text.includes('\n'))].join('\n\n')}\n`
}

/** @param {Option} group @param {Option[]} options @returns {string} */
function table(group, options) {
  const rows = options
    .filter(({ entry, options: name }) => entry === group.entry && name === group.options)
    .filter(({ name, required, says }) => required || (says !== undefined && !ports.has(name)))
    .map(({ name, required, says }) => `| \`${name}\` | ${required ? '**required**' : cell(says ?? '')} |`)
  return rows.length === 0 ? '' : [`### ${group.options}`, '', '| option | default |', '|---|---|', ...rows].join('\n')
}

const ports = new Set(['runtime', 'logger', 'metrics'])

/** @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|').replace(/\.$/, '')

const head = `# Defaults

Every option of every package, by its interface, with what it is when it is left out. The page is made of the doc comments (\`node scripts/docs-defaults.mjs\`), and a test compares them with the code. Durations are milliseconds where no unit is
given. Ports that are left out: \`runtime\` is the system's clock; \`logger\` and \`metrics\` are those of the part that uses this one, such as its router, and otherwise the console and none. Which function takes which options is in the README of each package and in the API reference.`

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(page, renderDefaults(collectOptions()))
