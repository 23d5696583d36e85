"""What happens next: each module is one LangGraph graph and reads like its diagram."""
