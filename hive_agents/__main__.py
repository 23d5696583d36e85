from hive_agents.cli.main import run

if __name__ == "__main__":
    run()
