import { brokers, clients, frameworks, type Option, stores } from '../choices/catalog.ts'

const values = (options: readonly Option[]) => options.map(({ value }) => value).join(', ')

const clientLines = stores.map(({ value }) => `                        ${value.padEnd(10)}${values(clients[value])}`).join('\n')

export const help: string = `Creates a service on Ackord.

  npm create ackord@latest [directory] [-- flags]
  pnpm create ackord [directory] [flags]

Asks for what the flags do not say. Without a terminal it asks nothing: give all flags, or --yes for the defaults.

  --store NAME          ${values(stores)}
  --client NAME         the client or ORM of the store; the first is the default:
${clientLines}
  --broker NAME         ${values(brokers)}
  --framework NAME      ${values(frameworks)}
  --name NAME           the name of the package; the default is that of the directory
  --yes, -y             takes the defaults for everything that no flag says
  --no-install          does not install the dependencies
  --force               writes into a directory that is not empty, and replaces files of the same names
  --help, -h            prints this
  --version, -v         prints the version

Examples
  npm create ackord@latest
  npm create ackord@latest shop -- --store postgres --client drizzle --broker rabbitmq --framework fastify
  npm create ackord@latest shop -- --store sqlite --broker http --yes --no-install
`
